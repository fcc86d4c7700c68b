"""Sequence-level knowledge distillation (Kim and Rush 2016): a teacher's translations instead of the references."""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary, indexed_dataset

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, atomic_folder, check_new, check_outputs, read_lines, remove_unfinished
from resmlp_mt.data import raw_text
from resmlp_mt.data.binarized import lengths, open_binarized, prefixes, read_dictionary
from resmlp_mt.score.generate_output import ordered_texts, read_generate_output

_SOURCE = re.compile(r"S-([0-9]{1,18})\t(.*)", re.DOTALL)


@dataclass(frozen=True)
class DataBin:
    folder: Path
    langs: tuple[str, str]

    def dictionary(self, language: str) -> Dictionary:
        return read_dictionary(self.folder / f"dict.{language}.txt")

    def sides(self, split: str) -> list[Sequence[torch.Tensor]]:
        files = zip(prefixes(self.folder, split, self.langs), self.langs, strict=True)
        return [open_binarized(prefix, len(self.dictionary(language))) for prefix, language in files]

    def running_text(self) -> Callable[[str], str]:
        """Return a function that writes subwords as S- lines have them: as running text, if there is ``text.json``."""
        if not (self.folder / raw_text.NAME).exists():
            return lambda subwords: subwords
        text = raw_text.RawText.of(self.folder)
        _, target = text.check_languages(*self.langs)
        return text.running_text(target)  # also for sources: fairseq detokenizes both sides by the target's rules


def distill(generated: Sequence[PathLike], data: DataBin, out: Path, keep_original: bool = False) -> Counter[str]:
    """Make binarized data whose training targets are a teacher's, in the new folder ``out``.

    ``generated``: what fairseq-generate printed for ``--gen-subset train``, one file per shard. Other files are copied.
    Original pairs, if kept, come last in ``train``. Returns the number of all ``pairs``, of translations that are the
    ``same`` as the reference, of ``unknown`` subwords of the teacher, and of ``empty`` translations.
    """
    check_outputs([out], [data.folder, *generated])
    check_new(out)
    remove_unfinished(out)
    langs = data.langs
    if Path(f"{prefixes(data.folder, 'train1', langs)[0]}.idx").exists():
        raise UserError(f"{data.folder}: training would add train1, which is not translated: make one train of both")
    sources, references = data.sides("train")
    lengths(data.folder, "train", langs)  # refuses sides with different numbers of sentences
    _check_sources(generated, data, sources)
    hypotheses = ordered_texts(read_generate_output(generated), len(sources))
    with atomic_folder(out) as folder:
        old = prefixes(data.folder, "train", langs)
        new = [folder / path.name for path in old]
        for path in sorted(data.folder.iterdir()):
            if path.is_file() and not path.name.startswith(f"{old[0].stem}."):
                shutil.copyfile(path, folder / path.name)
        times = 2 if keep_original else 1
        source, target = (
            indexed_dataset.make_builder(f"{path}.bin", impl="mmap", vocab_size=len(data.dictionary(language)))
            for path, language in zip(new, langs, strict=True)
        )
        for _ in range(times):
            source.merge_file_(str(old[0]))
        counts = _add_translations(target, hypotheses, references, data.dictionary(langs[1]))
        if keep_original:
            target.merge_file_(str(old[1]))
        source.finalize(f"{new[0]}.idx")
        target.finalize(f"{new[1]}.idx")
    return counts + Counter(pairs=len(hypotheses) * times)


def _check_sources(generated: Sequence[PathLike], data: DataBin, sources: Sequence[torch.Tensor]) -> None:
    """Check that the teacher translated this data: every sentence, with its number, as subwords or running text."""
    dictionary, running_text = data.dictionary(data.langs[0]), data.running_text()
    missing = set(range(len(sources)))
    for path in generated:
        for number, line in enumerate(read_lines(path), start=1):
            if match := _SOURCE.fullmatch(line):
                sentence = int(match[1])
                subwords = dictionary.string(sources[sentence]) if sentence < len(sources) else None
                if subwords is None or (match[2] != subwords and match[2] != running_text(subwords)):
                    raise UserError(
                        f"{path}:{number}: sentence {sentence} is not that of the data's train: give the output of "
                        "fairseq-generate --gen-subset train for this very data, without --post-process"
                    )
                missing.discard(sentence)
    if missing:
        raise UserError(
            f"{', '.join(map(str, generated))}: no S- line of sentence {min(missing)}, {len(missing)} of "
            f"{len(sources)} are missing: generate with --required-batch-size-multiple 1, give every shard"
        )


def _add_translations(
    side: Any, hypotheses: list[str], references: Sequence[torch.Tensor], dictionary: Dictionary
) -> Counter[str]:
    """Add the teacher's targets; count those equal to the reference, unknown subwords, and empty ones."""
    counts: Counter[str] = Counter()
    for sentence, (text, reference) in enumerate(zip(hypotheses, references, strict=True)):
        numbers, words = dictionary.encode_line(text, add_if_not_exist=False), text.split()
        lost = [word for word, number in zip(words, numbers.tolist(), strict=False) if number == dictionary.unk()]
        for word in lost:
            if word != dictionary.unk_string():
                raise UserError(
                    f"sentence {sentence}: '{word}' is not in the data's dictionary: generate with a model of this "
                    "dictionary, without --post-process"
                )
        same = torch.equal(numbers.long(), reference.long())
        counts.update(same=same, unknown=len(lost), empty=not words)
        side.add_item(numbers)
    return counts
