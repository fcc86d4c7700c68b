"""Plain parallel text -> words -> joint subwords -> binarised data, step by step."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm  # type: ignore[import-untyped]

from resmlp_mt.corpora.binarize import SPLITS, Binarizing
from resmlp_mt.corpora.filtering import PairFilter
from resmlp_mt.corpora.parallel import ordered_map
from resmlp_mt.corpora.steps import Step, Steps
from resmlp_mt.corpora.subwords import PairSplitter, Subwords
from resmlp_mt.corpora.tokens import PairTokenizer, Words
from resmlp_mt.errors import UserError
from resmlp_mt.files import atomic_write, read_lines, read_parallel

Pair = tuple[Path, Path]


@dataclass(frozen=True)
class Corpus:
    """A parallel corpus in plain text files, aligned line by line, gzipped if their names end in ``.gz``.

    Attributes:
        langs: source and target language, two letters each
        train, valid, test: the source and the target file
    """

    langs: tuple[str, str]
    train: Pair
    valid: Pair
    test: Pair


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


def prepare(corpus: Corpus, recipe: Recipe, out: Path, workers: int = 1) -> dict[str, Any]:
    """Make ``out/data-bin`` and the files that translating raw text needs, from a corpus.

    Steps whose inputs and options are those of an earlier run in ``out`` are reused; a killed run goes on. The same
    corpus, recipe and versions of the libraries give the same bytes, for any number of workers.

    Leaves in ``out``: ``tokenized/`` and ``subwords/`` with ``{train,valid,test}.LANG``; ``bpe.codes`` or
    ``sentencepiece.bpe.model``; ``data-bin/``; ``steps.json`` (what was made from what); ``summary.json``.

    Returns:
        the summary, as in ``summary.json``: counts of pairs, words, subwords; dictionary symbols; rates of unknown
        subwords (a fraction); options for fairseq-interactive, run in ``out``

    Raises:
        UserError: a file is missing, unreadable, misaligned or not UTF-8, an evaluation set has an empty line, nothing
            is left to train on, a tool failed, the disk is full, ...
    """
    if workers < 1:
        raise UserError(f"--workers {workers}: must be 1 or more")
    if corpus.langs[0] == corpus.langs[1]:
        raise UserError(f"source and target language are both {corpus.langs[0]!r}: fairseq needs two names")
    with Steps.of_folder(out) as steps:
        summary = _Preparation(corpus, recipe, Path(out), workers, steps).run()
    return summary


def format_summary(summary: Mapping[str, Any]) -> str:
    """A summary of ``prepare`` as a few lines for people."""
    pairs = summary["pairs"]
    dropped = ", ".join(f"{count} {reason}" for reason, count in pairs["train"]["dropped"].items()) or "none"
    lines = [
        f"train: {pairs['train']['kept']:,} of {pairs['train']['read']:,} pairs kept (dropped: {dropped}); "
        f"valid: {pairs['valid']['read']:,}; test: {pairs['test']['read']:,}",
        f"subwords: {summary['learned']:,} learned; dictionary: {summary['dictionary']:,} symbols",
    ]
    for split, sides in summary["text"].items():
        for lang, side in sides.items():
            lines.append(
                f"{split}.{lang}: {side['words']:,} words, {side['subwords_per_word']:.3f} subwords a word, "
                f"{side['unknown']:.3%} unknown, longest {side['longest']} subwords"
            )
    lines.append("raw text, in this folder: fairseq-interactive data-bin " + " ".join(summary["fairseq_options"]))
    return "\n".join(lines)


@dataclass
class _Preparation:
    corpus: Corpus
    recipe: Recipe
    out: Path
    workers: int
    steps: Steps

    def run(self) -> dict[str, Any]:
        words, subwords = self.recipe.words, self.recipe.subwords
        pairs = {}
        for split in SPLITS:
            step = Step(
                f"tokenize {split}",
                inputs=getattr(self.corpus, split),
                outputs=self._files("tokenized", split),
                options={"langs": self.corpus.langs, **asdict(words)},
                libraries=["sacremoses", "regex"],
            )
            pairs[split] = self.steps.run(step, partial(self._tokenize, step, split))

        learned_file = self.out / subwords.file_name
        learn = Step(
            "learn subwords",
            inputs=self._files("tokenized", "train"),
            outputs=[learned_file],
            options=asdict(subwords),
            libraries=["subword-nmt" if subwords.kind == "bpe" else "sentencepiece"],
        )
        learned = self.steps.run(learn, lambda: {"learned": subwords.learn(learn.inputs, learned_file)})["learned"]

        for split in SPLITS:
            step = Step(
                f"split {split}",
                inputs=[*self._files("tokenized", split), learned_file],
                outputs=self._files("subwords", split),
                options=asdict(self.recipe.pair_filter) if split == "train" else {},
                libraries=learn.libraries,
            )
            pairs[split] |= self.steps.run(step, partial(self._split, step, split, pairs[split]["read"]))

        binarizing = Binarizing(self.out / "subwords", self.out / "data-bin", self.corpus.langs, self.workers)
        step = Step(
            "binarise",
            inputs=[path for split in SPLITS for path in self._files("subwords", split)],
            outputs=binarizing.outputs,
            options={"langs": self.corpus.langs},
            libraries=["fairseq-fixed|fairseq"],
        )
        kept = [pairs[split]["kept"] for split in SPLITS]
        text = self.steps.run(step, partial(self._binarize, binarizing, kept))["text"]

        summary = {
            "pairs": pairs,
            "learned": learned,
            "dictionary": len(binarizing.dictionary()),
            "text": text,
            "fairseq_options": [
                *("--source-lang", self.corpus.langs[0], "--target-lang", self.corpus.langs[1]),
                *words.fairseq_options,
                *subwords.fairseq_options(subwords.file_name),
            ],
        }
        with atomic_write(self.out / "summary.json") as file:
            json.dump(summary, file, indent=1)
            file.write("\n")
        return summary

    def _files(self, stage: str, split: str) -> list[Path]:
        return [self.out / stage / f"{split}.{lang}" for lang in self.corpus.langs]

    def _tokenize(self, step: Step, split: str) -> dict[str, Any]:
        tokenizer = partial(PairTokenizer, self.corpus.langs, self.recipe.words)
        pairs = ordered_map(tokenizer, _progress(read_parallel(step.inputs), step.name), self.workers)
        number = 0
        with _aligned_writers(step.outputs) as write:
            for number, pair in enumerate(pairs, start=1):
                for path, line in zip(step.inputs, pair, strict=True):
                    if not line and split != "train":
                        raise UserError(
                            f"{path}:{number}: no words: {split} lines are never dropped: "
                            "put a sentence there, or take the line out of both files"
                        )
                write(pair)
        if number == 0:
            raise UserError(f"{step.inputs[0]}: empty: the {split} set needs at least one pair")
        return {"read": number}

    def _split(self, step: Step, split: str, expected: int) -> dict[str, Any]:
        splitter = partial(PairSplitter, self.recipe.subwords, step.inputs[2])
        pairs = ordered_map(splitter, _progress(read_parallel(step.inputs[:2]), step.name, expected), self.workers)
        dropped: Counter[str] = Counter()
        kept = 0
        with _aligned_writers(step.outputs) as write:
            for pair in pairs:
                reason = self.recipe.pair_filter.why_dropped(pair) if split == "train" else None
                if reason:
                    dropped[reason] += 1
                else:
                    write(pair)
                    kept += 1
        if kept + dropped.total() != expected:
            raise UserError(f"{step.inputs[0]}: {expected} lines expected, {kept + dropped.total()} found: run again")
        if kept == 0:
            reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
            raise UserError(f"{self.corpus.train[0]}: no training pair is left ({reasons}): look at the limits")
        return {"kept": kept, "dropped": dict(sorted(dropped.items()))}

    def _binarize(self, binarizing: Binarizing, lines: list[int]) -> dict[str, Any]:
        binarizing.run(lines)
        known = binarizing.dictionary()
        text: dict[str, Any] = {}
        for split in SPLITS:
            text[split] = {}
            for lang, path in zip(self.corpus.langs, self._files("subwords", split), strict=True):
                text[split][lang] = _count(path, known, self.recipe.subwords)
        return {"text": text}


def _count(path: Path, known: Mapping[str, int], subwords: Subwords) -> dict[str, Any]:
    pieces = words = unknown = longest = 0
    for line in read_lines(path):
        split = line.split()
        pieces += len(split)
        words += sum(subwords.marks_word(piece) for piece in split)
        unknown += sum(piece not in known for piece in split)
        longest = max(longest, len(split))
    return {
        "words": words,
        "subwords_per_word": round(pieces / words, 4),
        "unknown": round(unknown / pieces, 6),
        "longest": longest,
    }


def _progress(items: Iterable[Any], name: str, total: int | None = None) -> Iterable[Any]:
    # disable=None: silent where stderr is no terminal
    return tqdm(items, desc=name, unit=" pairs", total=total, disable=None)


@contextlib.contextmanager
def _aligned_writers(paths: Iterable[Path]) -> Iterator[Any]:
    """A function that writes one line to each of the files, which appear together."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(atomic_write(path)) for path in paths]

        def write(lines: tuple[str, ...]) -> None:
            for file, line in zip(files, lines, strict=True):
                file.write(line + "\n")

        yield write
