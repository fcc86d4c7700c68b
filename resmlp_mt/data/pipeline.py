"""Parallel text -> words -> joint subwords -> binarized data, step by step."""

import contextlib
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from string import punctuation
from typing import IO, Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import LONGEST_LINE, atomic_write, read_lines, write_json
from resmlp_mt.common.progress import Progress, format_reasons, text_table
from resmlp_mt.common.workers import ALONE, Workers, chunks, ordered_map
from resmlp_mt.data.binarize import SPLITS, Binarizing, write_dictionary
from resmlp_mt.data.chunks import ChunkSplitter, ChunkTokenizer, PairFilter, SideCounts, WordCounter
from resmlp_mt.data.languages import check_code, check_folders, check_name
from resmlp_mt.data.raw_text import RawText
from resmlp_mt.data.sources import PairSource, PlainText
from resmlp_mt.data.steps import Step, Steps
from resmlp_mt.data.subwords import Subwords, every_nth, learn_bpe, learn_pieces, write_counts
from resmlp_mt.text.moses import has_abbreviations
from resmlp_mt.text.words import CharacterCleaner, Words, running_text

MANY_BROKEN = 0.01  # share of a training text's lines that are not UTF-8; from this share on, a warning is printed
MOST_BROKEN = 0.5  # above this share, the text must be in another encoding: an error
SURE = 10_000  # after this many lines, the share is checked before the end of the text
MANY_TORN = 0.05  # share of lines in which Moses' rules tear words apart; Multi30k and Tatoeba have at most 0.005

Work = Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Corpus:
    """A parallel corpus. Each set has one or more sources, which are read one after the other."""

    langs: tuple[str, str]
    train: Sequence[PairSource]
    valid: Sequence[PairSource]
    test: Sequence[PairSource]
    sample: int | None = None  # use only this many pairs from the beginning of each training source; None: all

    def __post_init__(self) -> None:
        for lang, option in zip(self.langs, ("--source-lang", "--target-lang"), strict=True):
            check_name(lang, option)
        if self.langs[0] == self.langs[1]:
            raise UserError(f"source and target language are both {self.langs[0]!r}: fairseq needs two names")

    @property
    def sets(self) -> dict[str, Sequence[PairSource]]:
        return {"train": self.train, "valid": self.valid, "test": self.test}


@dataclass(frozen=True)
class CorpusRecipe:
    """How a corpus is prepared; see the classes of its parts."""

    words: Words = field(default_factory=Words)
    subwords: Subwords = field(default_factory=Subwords)
    pair_filter: PairFilter = field(default_factory=PairFilter)


def unpack_step(name: str, archives: Sequence[Path], plain: Sequence[Path]) -> tuple[Step, Work]:
    """Return a step for ``also`` of ``prepare`` that unpacks gzipped files, such as a test set's references."""

    def unpack() -> dict[str, Any]:
        for archive, path in zip(archives, plain, strict=True):
            lines = list(read_lines(archive))
            with atomic_write(path) as file:
                file.writelines(f"{line}\n" for line in lines)
        return {"pairs": len(lines)}

    return Step(f"unpack {name}", archives, plain, {}), unpack


def prepare(
    corpus: Corpus,
    recipe: CorpusRecipe,
    out: Path,
    workers: Workers = ALONE,
    also: Sequence[tuple[Step, Work]] = (),
    overwrite: bool = False,
    obtain: Callable[[], Any] | None = None,
) -> dict[str, Any]:
    """Prepare a corpus: make ``out/data-bin`` with all files that translating raw text needs; return ``summary.json``.

    A step is reused if an earlier run in ``out`` did it with the same inputs and options, so a killed run continues.
    The same corpus, recipe and library versions give the same bytes with any workers, except ``times.json``.

    Args:
        also: steps that run first; their outputs may be sources of the corpus
        overwrite: allow writing over files of ``out`` that no earlier preparation made
        obtain: gets and checks the input files; called after the check that no file of the user is in the way
    """
    check_folders(out)
    _check_rules(corpus.langs, recipe.words)
    preparation = _Preparation(corpus, recipe, Path(out), workers)
    made = [path for step, _ in also for path in step.outputs]
    sources = [source for some in corpus.sets.values() for source in some if not set(source.inputs) <= set(made)]
    inputs = [path for read in (*sources, *(step for step, _ in also)) for path in read.inputs]
    if obtain is None:
        for source in sources:
            source.check()
    with Steps.of_folder(Path(out), [*made, *preparation.outputs], inputs, overwrite) as steps:
        if obtain:
            obtain()
        for step, work in also:
            steps.run(step, work)
        return preparation.run(steps)


def _check_rules(langs: tuple[str, str], words: Words) -> None:
    """Check that there are rules for the languages, if words are made by rules."""
    if words.tokenizer == "none" and words.dash_splits:
        raise UserError("--dash-splits: is of --tokenize moses: leave one of the two out")
    if words.tokenizer == "none" and not words.normalize:
        return
    for lang, option in zip(langs, ("--source-lang", "--target-lang"), strict=True):
        try:
            check_code(lang, option)
        except UserError as error:
            raise UserError(f"{error}, or --tokenize none --keep-punctuation, which need no rules of it") from error
        if words.tokenizer == "moses" and not has_abbreviations(lang):
            print(
                f"{option} {lang}: sacremoses has no list of abbreviations of this language and takes the English one",
                file=sys.stderr,
            )


class _Preparation:
    def __init__(self, corpus: Corpus, recipe: CorpusRecipe, out: Path, workers: Workers):
        self.corpus, self.recipe, self.workers = corpus, recipe, workers
        self.texts = {split: self._tokenized(out, split) for split in SPLITS}
        self.words = out / "tokenized" / "words.txt"
        self.learned = out / recipe.subwords.file_name
        self.split = {split: [out / "subwords" / f"{split}.{lang}" for lang in corpus.langs] for split in SPLITS}
        self.binarizing = Binarizing(out / "subwords", out / "data-bin", corpus.langs, workers)
        self.text = RawText(out / "data-bin", corpus.langs, recipe.words, recipe.subwords, self.learned.name)
        self.out = out

    @property
    def outputs(self) -> list[Path]:
        """All files that the steps may write."""
        texts = [path for split in SPLITS for text in self.texts[split] for path in text.inputs]
        split = [path for paths in self.split.values() for path in paths]
        data_bin = [*self.binarizing.outputs, *self.text.files]
        return [*texts, self.words, self.learned, *split, self.binarizing.dictionary, *data_bin]

    def run(self, steps: Steps) -> dict[str, Any]:
        self.steps = steps
        tokenized = {
            split: [self._tokenize(split, number, source) for number, source in enumerate(sources)]
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
        write_json(self.out / "summary.json", summary)
        return summary

    def _tokenized(self, out: Path, split: str) -> list[PlainText]:
        names = [f"{split}.{number}" for number, _ in enumerate(self.corpus.sets[split], start=1)]
        paths = [[out / "tokenized" / f"{name}.{lang}" for lang in self.corpus.langs] for name in names]
        return [PlainText(*pair, longest=LONGEST_LINE) for pair in paths]  # tokens take more bytes than raw text

    def _tokenize(self, split: str, number: int, source: PairSource) -> dict[str, Any]:
        sample = self.corpus.sample if split == "train" else None
        step = Step(
            f"tokenize {split} {number + 1}",
            inputs=source.inputs,
            outputs=self.texts[split][number].inputs,
            options={"langs": self.corpus.langs, "sample": sample, "source": source.options}
            | asdict(self.recipe.words),
            libraries=["sacremoses", "regex"],
        )
        names = None if split == "train" else source.sides
        tokenizer = partial(ChunkTokenizer, self.corpus.langs, self.recipe.words, names)

        def work() -> dict[str, Any]:
            not_utf8 = [0, 0]
            with _opened(step.outputs) as files, Progress(f"tokenize {source.name}", sample) as progress:
                for done in ordered_map(tokenizer, chunks(islice(source.pairs(), sample)), self.workers):
                    for file, text in zip(files, done.texts, strict=True):
                        file.write(text)
                    progress.add(done.read, done.dropped)
                    not_utf8 = [total + new for total, new in zip(not_utf8, done.not_utf8, strict=True)]
                    if progress.pairs >= SURE:
                        _check_encoding(source, progress.pairs, not_utf8)
                _check_encoding(source, progress.pairs, not_utf8)
                if progress.pairs == 0:
                    raise UserError(f"{source.sides[0]}: empty: the {split} set needs at least one pair of each source")
            return {"pairs": progress.pairs, **progress.outcome, "not_utf8": not_utf8}

        done = self.steps.run(step, work)
        for name, broken in zip(source.sides, done["not_utf8"], strict=True):
            if broken >= MANY_BROKEN * done["pairs"]:
                print(
                    f"{name}: {_share(broken, done['pairs'])} are not UTF-8, and their pairs are dropped: if the text "
                    "is in another encoding, convert it, such as iconv -f LATIN1 -t UTF-8",
                    file=sys.stderr,
                )
        if split != "train":
            self._tell_of_torn_words(source, self.texts[split][number])
        return done

    def _tell_of_torn_words(self, source: PairSource, tokenized: PlainText) -> None:
        """Tell if text that is made of the words again has spaces inside many words, as in Thai."""
        pairs = list(islice(zip(source.pairs(), tokenized.pairs(), strict=True), 1000))
        for side, (lang, name) in enumerate(zip(self.corpus.langs, source.sides, strict=True)):
            clean, restore = CharacterCleaner(lang, self.recipe.words.normalize), running_text(lang, self.recipe.words)
            lines = [(clean(raw[side].decode()), restore(words[side].decode())) for raw, words in pairs]
            torn = [(line, made) for line, made in lines if _count_words(line) < _count_words(made)]
            if len(torn) > MANY_TORN * len(lines):
                line, made = torn[0]
                pieces = " ".join(word for word in made.split() if word not in line.split())
                print(
                    f"{name}: {_share(len(torn), len(lines))} come back from --tokenize moses with words torn apart, "
                    f"such as {pieces:.40}: give --tokenize none --subwords sentencepiece",
                    file=sys.stderr,
                )

    def _count(self, lines: int) -> Path:
        """Count the words of the training text, in a separate step: learning BPE from the counts takes long."""
        texts = self.texts["train"]
        step = Step("count words", [path for text in texts for path in text.inputs], [self.words], {})

        def work() -> dict[str, Any]:
            counts = Counter[str]()
            pairs = (pair for text in texts for pair in text.pairs())
            with Progress(step.name, lines) as progress:
                for read, counted in ordered_map(WordCounter, chunks(pairs), self.workers):
                    counts.update(counted)
                    progress.add(read)
            write_counts(counts, step.outputs[0])
            return {"pairs": lines}

        self.steps.run(step, work)
        return step.outputs[0]

    def _learn(self, lines: int) -> dict[str, Any]:
        subwords = self.recipe.subwords
        texts = self.texts["train"]
        is_bpe = subwords.kind == "bpe"
        step = Step(
            "learn subwords",
            inputs=[self._count(lines)] if is_bpe else [path for text in texts for path in text.inputs],
            outputs=[self.learned],
            options=asdict(subwords),
            libraries=[subwords.learner if is_bpe else subwords.library],
        )

        def work() -> dict[str, Any]:
            if is_bpe:
                learned = learn_bpe(step.inputs[0], step.outputs[0], subwords, self.workers.jobs)
            else:
                pairs = (pair for text in texts for pair in text.pairs())
                with Progress("read text", lines) as progress:
                    learned = learn_pieces(every_nth(progress.over(pairs), lines), step.outputs[0], subwords)
            return {"pairs": lines, "learned": learned}

        return self.steps.run(step, work)

    def _split(self, split: str, expected: list[int]) -> dict[str, Any]:
        subwords = self.recipe.subwords
        pair_filter = self.recipe.pair_filter if split == "train" else None
        texts = self.texts[split]
        step = Step(
            f"split {split}",
            inputs=[*(path for text in texts for path in text.inputs), self.learned],
            outputs=[*self.split[split], *([self.binarizing.dictionary] if pair_filter else [])],
            options=asdict(pair_filter) if pair_filter else {},
            libraries=[subwords.library],
        )

        def work() -> dict[str, Any]:
            splitter = partial(ChunkSplitter, subwords, self.learned, pair_filter)
            sources = []
            counts = SideCounts(), SideCounts()
            symbols = Counter[str]()
            with _opened(step.outputs[:2]) as files:
                for text, lines in zip(texts, expected, strict=True):
                    with Progress(f"split {split}", lines) as progress:
                        for done in ordered_map(splitter, chunks(text.pairs()), self.workers):
                            symbols.update(done.symbols)
                            for file, made, total, counted in zip(files, done.texts, counts, done.counts, strict=True):
                                file.write(made)
                                total.add(counted)
                            progress.add(done.read, done.dropped)
                    sources.append(progress.outcome)
                if not any(source["kept"] for source in sources):
                    why = format_reasons(sum((Counter(source["dropped"]) for source in sources), Counter()))
                    raise UserError(f"{self.corpus.train[0].sides[0]}: no pair is left ({why}): look at the limits")
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
        step = Step(
            "binarize",
            inputs=[*(path for split in SPLITS for path in self.split[split]), self.binarizing.dictionary],
            outputs=self.binarizing.outputs,
            options={"langs": self.corpus.langs},
        )

        def work() -> dict[str, Any]:
            with Progress(step.name, sum(lines.values())) as progress:
                return {"pairs": sum(lines.values()), **self.binarizing.run(lines, progress.add)}

        return self.steps.run(step, work)

    def _record_text(self) -> None:
        step = Step("record how text is treated", [self.learned], self.text.files, self.text.values)

        def work() -> dict[str, Any]:
            self.text.write(self.learned)
            return {"pairs": 0}

        self.steps.run(step, work)


def _check_encoding(source: PairSource, read: int, not_utf8: Sequence[int]) -> None:
    for name, broken in zip(source.sides, not_utf8, strict=True):
        if broken > MOST_BROKEN * read:
            encoding = "convert the text from its encoding, such as iconv -f LATIN1 -t UTF-8"
            raise UserError(f"{name}: {_share(broken, read)} are not UTF-8: {encoding}")


def _count_words(text: str) -> int:
    """Count words, R&D as two, and no ASCII punctuation that stands alone: in French a space belongs before some."""
    return sum(bool(word.strip(punctuation)) for word in text.replace("&", " ").split())


def _share(broken: int, read: int) -> str:
    return f"{broken:,} of {read:,} lines ({broken / read:.1%})"


@contextlib.contextmanager
def _opened(paths: Iterable[Path]) -> Iterator[list[IO[bytes]]]:
    """Yield files to write, which appear when all is written."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(atomic_write(path, "wb")) for path in paths]


def _pairs(sources: Sequence[PairSource], tokenized: list[dict[str, Any]], split: dict[str, Any]) -> dict[str, Any]:
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
    read = sum(row["read"] for row in rows)
    return {"read": read, "kept": split["kept"], "dropped": dict(sorted(dropped.items())), "sources": rows}


def _text(sides: dict[str, dict[str, int]], unknown: dict[str, int]) -> dict[str, Any]:
    return {
        lang: {
            **side,
            "subwords_per_word": round(side["subwords"] / side["words"], 4),
            "unknown": round(unknown[lang] / side["subwords"], 6),
        }
        for lang, side in sides.items()
    }


def format_summary(summary: Mapping[str, Any]) -> str:
    """Format a summary of ``prepare`` as two tables and a line on the subwords."""
    pairs = [("pairs", "read", "kept", "dropped")]
    for split, counts in summary["pairs"].items():
        rows = [(split, counts)]
        if len(counts["sources"]) > 1:
            rows += [(f"  {source['name']}", source) for source in counts["sources"]]
        pairs += [(name, f"{row['read']:,}", f"{row['kept']:,}", format_reasons(row["dropped"])) for name, row in rows]
    text = [("text", "words", "subwords", "subwords/word", "unknown", "longest")]
    for split, sides in summary["text"].items():
        for lang, side in sides.items():
            numbers = f"{side['words']:,}", f"{side['subwords']:,}", f"{side['subwords_per_word']:.3f}"
            text.append((f"{split}.{lang}", *numbers, f"{side['unknown']:.3%}", f"{side['longest']:,}"))
    learned = f"subwords: {summary['learned']:,} learned; dictionary: {summary['dictionary']:,} symbols"
    return "\n\n".join([text_table(pairs), text_table(text), learned])


def how_to_translate(data_bin: Path, save_dir: Path) -> str:
    """Return a command that translates raw text with a model trained into ``save_dir``, for the current folder."""
    user_dir, model = from_here(Path(__file__).parents[1]), save_dir / "checkpoint_best.pt"
    command = ["fairseq-interactive", data_bin, "--user-dir", user_dir, "--path", model]
    return f"raw text, with a model trained into {save_dir}:\n{shlex.join(map(str, command))}"


def from_here(path: Path) -> Path:
    """Return a path relative to the current folder if it is inside, else as it is."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
