"""Text that others have split into subwords -> binarized data, as fairseq-preprocess makes it, nothing dropped."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from resmlp_mt.common.files import atomic_write, write_json
from resmlp_mt.data import raw_text
from resmlp_mt.data.archives import files_of, opened_member
from resmlp_mt.data.binarize import RESERVED, SPLITS, Binarizing, write_dictionary
from resmlp_mt.data.disk import DiskWork
from resmlp_mt.data.parallel import Jobs, local_jobs
from resmlp_mt.data.pipeline import Corpus, Work, check_number
from resmlp_mt.data.progress import Progress
from resmlp_mt.data.raw_text import RawText, record
from resmlp_mt.data.record import Place, Record
from resmlp_mt.data.sources import PairSource
from resmlp_mt.data.steps import RULES, Step, Steps
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.words import Words


def place(
    out: Path,
    langs: tuple[str, str],
    inputs: Sequence[Path] = (),
    also: Sequence[Path] = (),
    overwrite: bool = False,
) -> Place:
    """Where ``prepare_subwords`` writes what, as ``pipeline.place``."""
    binarizing = Binarizing(out / "subwords", out / "data-bin", langs)
    texts = [out / "subwords" / f"{split}.{lang}" for split in SPLITS for lang in langs]
    outputs = [*also, *texts, binarizing.dictionary, out / "bpe.codes", *binarizing.outputs]
    outputs += [binarizing.folder / "bpe.codes", binarizing.folder / raw_text.NAME]
    return Place(out, outputs, [binarizing.folder], inputs, also, overwrite)


def disk_work(out: Path, text_bytes: int, sample: int | None, symbols: int) -> DiskWork:
    """What ``prepare_subwords`` will write of so many bytes of raw text."""
    record = Record(out)
    steps = {"subwords": "take train", "data-bin": "binarize"}
    otherwise = record.differs("take train", {"rules": RULES, "sample": sample, "symbols": symbols})
    if otherwise or "split train" in record.steps:
        return DiskWork(out, text_bytes, anew=list(steps), folders=list(steps))
    made = [folder for folder, step in steps.items() if record.has(step)]
    return DiskWork(out, text_bytes, made=made, folders=list(steps))


def prepare_subwords(
    corpus: Corpus,
    codes: tuple[Path, str],
    words: Words,
    symbols: int,
    out: Path,
    jobs: Jobs = 1,
    also: Sequence[tuple[Step, Work]] = (),
    overwrite: bool = False,
) -> dict[str, Any]:
    """Make ``out/data-bin`` from subwords, in steps as ``pipeline.prepare`` does.

    Leaves in ``out``: ``subwords/`` with ``SET.LANG`` and ``dict.txt``; ``bpe.codes``; ``data-bin/`` with a copy of it
    and ``text.json``; ``steps.json``; ``summary.json``; and ``times.json``, which alone differs from run to run.

    Args:
        corpus: subwords with spaces between them
        codes: archive and member with the BPE codes that they were made with
        words: how their makers made words of text; with XML special characters escaped, as Moses' scripts do
        symbols: of the joint dictionary with its four special ones, before it is padded to a multiple of 8: the most
            frequent in training, as by fairseq-preprocess's ``--nwordssrc``
        out: a folder, made if missing
        jobs: number of worker processes, or other workers
        also: steps that come first
        overwrite: files of ``out`` that are not of an earlier preparation may be written over

    Returns:
        the summary, as in ``summary.json``: pairs by set, symbols of the dictionary, subwords that it lacks

    Raises:
        UserError: a source or the codes cannot be read, the disk is full, or something of a user's is in the way
    """
    check_number("jobs", local_jobs(jobs))
    binarizing = Binarizing(out / "subwords", out / "data-bin", corpus.langs, jobs)
    texts = {split: [out / "subwords" / f"{split}.{lang}" for lang in corpus.langs] for split in SPLITS}
    inputs = files_of(codes[0], codes[1:])
    inputs += [path for sources in corpus.sets.values() for source in sources for path in source.inputs]
    inputs += [path for step, _ in also for path in step.inputs]
    made = [path for step, _ in also for path in step.outputs]
    with Steps.of_folder(place(out, corpus.langs, inputs, made, overwrite)) as steps:
        for step, work in also:
            steps.run(step, work)
        pairs = {}
        for split in SPLITS:
            (source,) = corpus.sets[split]
            is_train = split == "train"
            step = Step(
                f"take {split}",
                inputs=source.inputs,
                outputs=[*texts[split], *([binarizing.dictionary] if is_train else [])],
                options={"source": source.options, "sample": corpus.sample, "symbols": symbols} if is_train else {},
                libraries=["fairseq-fixed|fairseq"],
            )
            taking = partial(_take, step, source, corpus.sample if is_train else None, symbols)
            pairs[split] = steps.run(step, taking)["pairs"]
        step = Step(
            "take codes",
            inputs=files_of(codes[0], codes[1:]),
            outputs=[out / "bpe.codes"],
            options={"member": codes[1]},
        )
        steps.run(step, partial(_take_codes, *codes, step.outputs[0]))
        step = Step(
            "binarize",
            inputs=[*(path for split in SPLITS for path in texts[split]), binarizing.dictionary],
            outputs=binarizing.outputs,
            options={"langs": corpus.langs},
            libraries=["fairseq-fixed|fairseq"],
        )
        binarized = steps.run(step, lambda: {"pairs": sum(pairs.values()), **binarizing.run(pairs)})
        subwords = Subwords("bpe")
        text = RawText(binarizing.folder, corpus.langs, words, subwords, subwords.file_name, escape=True)
        record(steps, text, out / subwords.file_name)
        steps.finish()
        summary = {"pairs": pairs, "dictionary": binarized["dictionary"], "unknown": binarized["unknown"]}
        write_json(out / "summary.json", summary)
    return summary


def format_prepared(summary: dict[str, Any]) -> str:
    """A summary of ``prepare_subwords`` as a few lines for people."""
    lines = [f"dictionary: {summary['dictionary']:,} symbols"]
    for split in SPLITS:
        unknown = ", ".join(f"{count:,} in {lang}" for lang, count in sorted(summary["unknown"][split].items()))
        lines.append(f"{split}: {summary['pairs'][split]:,} pairs; unknown subwords: {unknown}")
    return "\n".join(lines)


def _take(step: Step, source: PairSource, sample: int | None, symbols: int) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(atomic_write(path)) for path in step.outputs[:2]]
        progress = stack.enter_context(Progress(f"take {source.name}", sample))
        for pair in progress.over(islice(source.pairs(), sample)):
            for file, line in zip(files, pair, strict=True):
                words = line.decode(errors="replace").split()  # at the characters that fairseq takes for spaces
                file.write(" ".join(words) + "\n")
                counts.update(words)
    if len(step.outputs) > 2:
        # Of equally frequent ones, fairseq keeps the first in the alphabet.
        most = Counter(dict(sorted(counts.items()))).most_common(symbols - len(RESERVED))
        write_dictionary(dict(most), step.outputs[2])
    return {"pairs": progress.pairs}


def _take_codes(archive: Path, member: str, path: Path) -> dict[str, Any]:
    with opened_member(archive, member) as codes, atomic_write(path, "wb") as file:
        file.write(codes.read())
    return {"pairs": 0}
