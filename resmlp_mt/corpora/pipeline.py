"""Parallel text -> words -> joint subwords -> binarised data, step by step."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from resmlp_mt.corpora.binarize import SPLITS, Binarizing, write_dictionary
from resmlp_mt.corpora.filtering import PairFilter
from resmlp_mt.corpora.parallel import chunks, ordered_map
from resmlp_mt.corpora.progress import Progress, reasons
from resmlp_mt.corpora.raw_text import RawText, record
from resmlp_mt.corpora.sources import PlainText, Source
from resmlp_mt.corpora.splitting import ChunkSplitter, SideCounts
from resmlp_mt.corpora.steps import Step, Steps
from resmlp_mt.corpora.subwords import Subwords, WordCounter, evenly, learn_bpe, learn_pieces
from resmlp_mt.corpora.tokens import ChunkTokenizer, Words
from resmlp_mt.errors import UserError
from resmlp_mt.files import atomic_write


@dataclass(frozen=True)
class Corpus:
    """A parallel corpus, each set of it one or more sources that follow each other.

    Attributes:
        langs: source and target language, two letters each
        train, valid, test: where the pairs come from
        sample: of each training source, only so many pairs from its beginning; None: all
    """

    langs: tuple[str, str]
    train: Sequence[Source]
    valid: Sequence[Source]
    test: Sequence[Source]
    sample: int | None = None

    def __post_init__(self) -> None:
        if self.langs[0] == self.langs[1]:
            raise UserError(f"source and target language are both {self.langs[0]!r}: fairseq needs two names")
        if self.sample is not None and self.sample < 1:
            raise UserError(f"--sample {self.sample}: must be 1 or more")

    @property
    def sets(self) -> dict[str, Sequence[Source]]:
        """The sources of each set."""
        return {"train": self.train, "valid": self.valid, "test": self.test}


@dataclass(frozen=True)
class Recipe:
    """How a corpus is prepared; see the classes of its parts."""

    words: Words = field(default_factory=Words)
    subwords: Subwords = field(default_factory=Subwords)
    pair_filter: PairFilter = field(default_factory=PairFilter)

    def __post_init__(self) -> None:
        if self.subwords.symbols < 1:
            raise UserError(f"--symbols {self.subwords.symbols}: must be 1 or more")
        if self.pair_filter.max_length < 1:
            raise UserError(f"--max-length {self.pair_filter.max_length}: must be 1 or more")
        if self.pair_filter.max_ratio is not None and self.pair_filter.max_ratio < 1:
            raise UserError(f"--max-ratio {self.pair_filter.max_ratio}: must be 1 or more")


def prepare(corpus: Corpus, recipe: Recipe, out: Path, jobs: int = 1) -> dict[str, Any]:
    """Make ``out/data-bin`` and the files that translating raw text needs, from a corpus.

    Steps whose inputs and options are those of an earlier run in ``out`` are reused; a killed run goes on. The same
    corpus, recipe and versions of the libraries give the same bytes, for any number of jobs.

    Leaves in ``out``: ``tokenized/`` with ``SET.NUMBER.LANG`` for each source of a set; ``subwords/`` with ``SET.LANG``
    and ``dict.txt``; ``bpe.codes`` or ``sentencepiece.bpe.model``; ``data-bin/`` with a copy of it and ``text.json``
    (what raw text needs to be treated alike); ``steps.json`` (what was made from what); ``summary.json``; and
    ``times.json``, which alone differs from run to run.

    Args:
        corpus: what to prepare
        recipe: how
        out: a folder, made if missing
        jobs: number of worker processes

    Returns:
        the summary, as in ``summary.json``: counts of pairs, words, subwords; dictionary symbols; rates of unknown
        subwords (a fraction)

    Raises:
        UserError: a file is missing, unreadable or misaligned, an evaluation set has a line that is empty or not UTF-8,
            nothing is left to train on, the disk is full, ...
    """
    if jobs < 1:
        raise UserError(f"--jobs {jobs}: must be 1 or more")
    with Steps.of_folder(out) as steps:
        return _Preparation(corpus, recipe, Path(out), jobs, steps).run()


@dataclass
class _Preparation:
    corpus: Corpus
    recipe: Recipe
    out: Path
    jobs: int
    steps: Steps

    def run(self) -> dict[str, Any]:
        tokenized = {
            split: [self._tokenize(split, number, source) for number, source in enumerate(sources, start=1)]
            for split, sources in self.corpus.sets.items()
        }
        learned = self._learn(sum(source["kept"] for source in tokenized["train"]))
        split = {name: self._split(name, [source["kept"] for source in tokenized[name]]) for name in SPLITS}
        binarized = self._binarize({name: split[name]["kept"] for name in SPLITS})
        self._record_text()
        self.steps.finish()
        summary = {
            "pairs": {name: _pairs(self.corpus.sets[name], tokenized[name], split[name]) for name in SPLITS},
            "learned": learned["learned"],
            "dictionary": binarized["dictionary"],
            "text": {name: _text(split[name]["text"], binarized["unknown"][name]) for name in SPLITS},
        }
        with atomic_write(self.out / "summary.json") as file:
            json.dump(summary, file, indent=1)
            file.write("\n")
        return summary

    def _texts(self, split: str) -> list[PlainText]:
        """The tokenized text of each source of a set."""
        numbers = range(1, len(self.corpus.sets[split]) + 1)
        names = ([self.out / "tokenized" / f"{split}.{n}.{lang}" for lang in self.corpus.langs] for n in numbers)
        return [PlainText(*pair) for pair in names]

    def _subwords(self, split: str) -> list[Path]:
        return [self.out / "subwords" / f"{split}.{lang}" for lang in self.corpus.langs]

    def _tokenize(self, split: str, number: int, source: Source) -> dict[str, Any]:
        sample = self.corpus.sample if split == "train" else None
        step = Step(
            f"tokenize {split} {number}",
            inputs=source.inputs,
            outputs=self._texts(split)[number - 1].inputs,
            options={
                "langs": self.corpus.langs,
                "sample": sample,
                "source": source.options,
                **asdict(self.recipe.words),
            },
            libraries=["sacremoses", "regex"],
        )
        names = None if split == "train" else source.sides
        tokenizer = partial(ChunkTokenizer, self.corpus.langs, self.recipe.words, names)

        def work() -> dict[str, Any]:
            with (
                _writers(step.outputs) as write,
                Progress(f"tokenize {source.name}", sample) as progress,
            ):
                for done in ordered_map(tokenizer, chunks(islice(source.pairs(), sample)), self.jobs):
                    write(done.texts)
                    progress.add(done.read, done.dropped)
                if progress.pairs == 0:
                    raise UserError(f"{source.sides[0]}: empty: the {split} set needs at least one pair of each source")
            return {"pairs": progress.pairs, **progress.outcome}

        return self.steps.run(step, work)

    def _learn(self, lines: int) -> dict[str, Any]:
        subwords = self.recipe.subwords
        texts = self._texts("train")
        step = Step(
            "learn subwords",
            inputs=[path for text in texts for path in text.inputs],
            outputs=[self.out / subwords.file_name],
            options=asdict(subwords),
            libraries=[subwords.library],
        )

        def work() -> dict[str, Any]:
            pairs = (pair for text in texts for pair in text.pairs())
            with Progress("read words", lines) as progress:
                if subwords.kind == "bpe":
                    counts = Counter[str](), Counter[str]()
                    for done in ordered_map(WordCounter, chunks(pairs), self.jobs):
                        progress.add(done.read)
                        for total, counted in zip(counts, done.counts, strict=True):
                            total.update(counted)
                    learned = learn_bpe(counts[0] + counts[1], step.outputs[0], subwords.symbols)
                else:
                    learned = learn_pieces(evenly(progress.over(pairs), lines), step.outputs[0], subwords.symbols)
            return {"pairs": lines, "learned": learned}

        return self.steps.run(step, work)

    def _split(self, split: str, expected: list[int]) -> dict[str, Any]:
        subwords = self.recipe.subwords
        learned = self.out / subwords.file_name
        pair_filter = self.recipe.pair_filter if split == "train" else None
        texts = self._texts(split)
        step = Step(
            f"split {split}",
            inputs=[*(path for text in texts for path in text.inputs), learned],
            outputs=[*self._subwords(split), *([self.out / "subwords" / "dict.txt"] if pair_filter else [])],
            options=asdict(pair_filter) if pair_filter else {},
            libraries=[subwords.library],
        )
        splitter = partial(ChunkSplitter, subwords, learned, pair_filter)

        def work() -> dict[str, Any]:
            sources = []
            counts = SideCounts(), SideCounts()
            symbols = Counter[str]()
            with _writers(step.outputs[:2]) as write:
                for text, lines in zip(texts, expected, strict=True):
                    with Progress(f"split {split}", lines) as progress:
                        for done in ordered_map(splitter, chunks(text.pairs()), self.jobs):
                            write(done.texts)
                            symbols.update(done.symbols)
                            for total, counted in zip(counts, done.counts, strict=True):
                                total.add(counted)
                            progress.add(done.read, done.dropped)
                    if progress.pairs != lines:
                        raise UserError(f"{text.source}: {lines} lines expected, {progress.pairs} found: run again")
                    sources.append(progress.outcome)
                if not any(source["kept"] for source in sources):
                    raise UserError(
                        f"{self.corpus.train[0].sides[0]}: no training pair is left ({_why(sources)}): "
                        "look at the limits"
                    )
                if pair_filter:
                    write_dictionary(symbols, step.outputs[2])
            return {
                "pairs": sum(expected),
                "kept": sum(source["kept"] for source in sources),
                "sources": sources,
                "text": dict(zip(self.corpus.langs, map(asdict, counts), strict=True)),
            }

        return self.steps.run(step, work)

    def _binarize(self, lines: dict[str, int]) -> dict[str, Any]:
        binarizing = Binarizing(self.out / "subwords", self.out / "data-bin", self.corpus.langs, self.jobs)
        step = Step(
            "binarise",
            inputs=[*(path for split in SPLITS for path in self._subwords(split)), binarizing.dictionary],
            outputs=binarizing.outputs,
            options={"langs": self.corpus.langs},
        )

        def work() -> dict[str, Any]:
            with Progress(step.name, sum(lines.values())) as progress:
                return {"pairs": sum(lines.values()), **binarizing.run(lines, progress.add)}

        return self.steps.run(step, work)

    def _record_text(self) -> None:
        words, subwords = self.recipe.words, self.recipe.subwords
        text = RawText(self.out / "data-bin", self.corpus.langs, words, subwords, subwords.file_name)
        record(self.steps, text, self.out / subwords.file_name)


def _pairs(sources: Sequence[Source], tokenized: list[dict[str, Any]], split: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {
            "name": source.name,
            "read": before["pairs"],
            "kept": after["kept"],
            "dropped": dict(sorted({**before["dropped"], **after["dropped"]}.items())),
        }
        for source, before, after in zip(sources, tokenized, split["sources"], strict=True)
    ]
    dropped = sum((Counter(row["dropped"]) for row in rows), Counter[str]())
    return {
        "read": sum(row["read"] for row in rows),
        "kept": split["kept"],
        "dropped": dict(sorted(dropped.items())),
        "sources": rows,
    }


def _text(sides: dict[str, dict[str, int]], unknown: dict[str, int]) -> dict[str, Any]:
    return {
        lang: {
            **side,
            "subwords_per_word": round(side["subwords"] / side["words"], 4),
            "unknown": round(unknown[lang] / side["subwords"], 6),
        }
        for lang, side in sides.items()
    }


def _why(sources: list[dict[str, Any]]) -> str:
    return reasons(sum((Counter(source["dropped"]) for source in sources), Counter()))


@contextlib.contextmanager
def _writers(paths: Iterable[Path]) -> Iterator[Callable[[Iterable[bytes]], None]]:
    """A function that adds some text to each of the files, which appear together."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(atomic_write(path, "wb")) for path in paths]

        def write(texts: Iterable[bytes]) -> None:
            for file, text in zip(files, texts, strict=True):
                file.write(text)

        yield write
