"""Translating real text, from text to text, by engines that take turns: speed, quality, latency, memory, size."""

import argparse
import importlib.util
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, check_can_be_written, check_outputs, read_lines, write_json
from resmlp_mt.common.tables import facts, markdown_table, text_table
from resmlp_mt.data.binarized import read_dictionary
from resmlp_mt.data.raw_text import RawText
from resmlp_mt.lab.benchmarks.engines import EngineProcess, FolderEngine
from resmlp_mt.lab.benchmarks.generation import builder
from resmlp_mt.lab.benchmarks.measuring import Spread, bracketed, latency, measure, per_second, speed_ratio
from resmlp_mt.lab.benchmarks.report import Cells, cells, milliseconds, profile_table
from resmlp_mt.lab.benchmarks.systems import Conditions, Size, Source, System
from resmlp_mt.lab.machine import describe, now
from resmlp_mt.score.bleu import Score, detokenized_scores, sacre_bleu
from resmlp_mt.text.tokenizer import Tokenizer

ALONE = 100  # sentences that are translated one at a time, for the latency
PROFILED = {"together": 256, "one at a time": 8}  # sentences of the profile, which takes long to sum up


@dataclass(frozen=True)
class Corpus:
    """Lines of text and, if there are any, their references."""

    name: str
    lines: list[str]
    references: list[str] | None = None


@dataclass(frozen=True)
class Row:
    """One engine on one corpus."""

    engine: str
    corpus: str
    sentences: int
    rate: Spread  # sentences a second
    ratio: Spread  # the speed over the baseline's, round by round
    tokens: float  # words a second of the translations, as blanks divide them
    scores: dict[str, Score] | None  # sacreBLEU and chrF2, if there are references
    latency: tuple[float, float]  # percentiles 50 and 99 of the seconds that a sentence takes that is alone
    first: float  # seconds until the first sentence is out, start of the process and loading included
    memory: int  # peak of its process in bytes, its libraries and all
    size: int  # bytes on disk
    same: int  # of how many sentences the translation is that of every round
    seconds: list[float]  # of each round
    operations: Sequence[dict[str, float]] | None = None  # seconds by PyTorch operation, for each of PROFILED


class TextEngine:
    """An engine that translates text in a process of its own.

    For an engine of subwords text is split, and translations are joined, in this process, and that time counts.

    Args:
        source: its system is ``model.pt``, fairseq's own search; ``ctranslate2/model.pt``, the same Transformer
            converted for CTranslate2; or a folder of ``resmlp-mt export``; each with ``:option=value,...``
        folder: an empty one, for what is converted
    """

    def __init__(self, source: Source, folder: str):
        system, conditions = source.system, source.conditions
        self.name, path = system.name, system.arch.removeprefix("ctranslate2/")
        if not os.path.exists(path):
            raise UserError(f"{self.name}: no such checkpoint or folder")
        self._tokenizer: Tokenizer | None = None
        self._build: Callable[[], Any]
        if os.path.isdir(path):
            self._build = partial(FolderEngine, path, conditions.threads, conditions.beam, system.overrides)
        else:
            self._tokenizer, self._build = tokenizer_of(source), builder(source, folder)
        self.size = bytes_on_disk(Path(folder, "converted") if system.is_ctranslate2 else Path(path))
        self.process = self._start()

    def _start(self) -> EngineProcess:
        try:
            return EngineProcess(self._build)
        except (TypeError, ValueError) as error:
            raise UserError(f"{self.name}: {str(error).splitlines()[0]}") from error

    def first_sentence(self, line: str) -> float:
        """Seconds from the start of another process until it has translated a sentence."""
        start = time.perf_counter()
        process = self._start()
        process.translate(self._prepared([line]))
        seconds = time.perf_counter() - start
        process.close()
        return seconds

    def translate(self, lines: Sequence[str]) -> tuple[list[str], float]:
        """Translations, and the seconds that they took from text to text, without the way between processes."""
        start = time.perf_counter()
        sentences = self._prepared(lines)
        before = time.perf_counter() - start
        translations, seconds = self.process.translate(sentences)
        start = time.perf_counter()
        if self._tokenizer:  # nothing where the source has no word
            translations = [
                self._tokenizer.decode(self._tokenizer.numbers(translation, target=True)) if source else ""
                for source, translation in zip(sentences, translations, strict=True)
            ]
        return translations, before + seconds + time.perf_counter() - start

    def operations(self, batches: Sequence[Sequence[str]]) -> dict[str, float]:
        """Seconds by PyTorch operation of translating these, one batch after the other."""
        return self.process.operations([(self._prepared(lines), None) for lines in batches])

    def _prepared(self, lines: Sequence[str]) -> list[Any]:
        return list(map(self._tokenizer.pieces, lines)) if self._tokenizer else list(lines)


def tokenizer_of(source: Source) -> Tokenizer:
    """Text to subwords and back, as the data was prepared."""
    raw = RawText.of(str(source.data))
    symbols = [read_dictionary(raw.folder / f"dict.{name}.txt").symbols for name in source.languages]
    return Tokenizer(raw.settings(*map(str, source.languages)), raw.folder / raw.learned, *symbols)


def bytes_on_disk(place: Path) -> int:
    """Of a file, or of all files of a folder."""
    return sum(file.stat().st_size for file in (place, *place.rglob("*")) if file.is_file())


def compare(
    engines: Sequence[TextEngine], corpora: Sequence[Corpus], language: str, rounds: int, profile: bool = False
) -> list[Row]:
    """Every engine translates every corpus once a round, in turns, and then single sentences, also in turns.

    A round before that does not count. The first engine is what the others are compared with. In the end ``profile``
    also finds where the time goes; CTranslate2's is all outside of PyTorch. ``language`` is that of the translations.
    """
    first = {engine.name: engine.first_sentence(corpora[0].lines[0]) for engine in engines}
    rows = []
    for corpus in corpora:
        lines, found = corpus.lines, dict[str, list[list[str]]]()

        def whole(_: int, engine: TextEngine, corpus: Corpus = corpus, found: Any = found) -> float:
            translations, seconds = engine.translate(corpus.lines)
            found.setdefault(engine.name, []).append(translations)
            return seconds

        def alone(number: int, engine: TextEngine, corpus: Corpus = corpus) -> float:
            return engine.translate([corpus.lines[number]])[1]

        times = measure({engine.name: partial(whole, engine=engine) for engine in engines}, 1, rounds, warmup=1)
        count = min(ALONE, len(lines))
        singly = measure({engine.name: partial(alone, engine=engine) for engine in engines}, count, rounds, warmup=1)
        together, apart = PROFILED.values()
        batches = [lines[:together]], [[line] for line in lines[:apart]]
        for engine in engines:
            seconds, best = times[engine.name], found[engine.name][-1]
            scored = corpus.references and detokenized_scores(best, corpus.references, language)
            rows.append(
                Row(
                    engine=engine.name,
                    corpus=corpus.name,
                    sentences=len(best),
                    rate=per_second(len(best), seconds),
                    ratio=speed_ratio(seconds, times[engines[0].name]),
                    tokens=sum(len(line.split()) for line in best) / float(np.median(seconds)),
                    scores=scored or None,
                    latency=latency(singly[engine.name]),
                    first=first[engine.name],
                    memory=engine.process.peak(),
                    size=engine.size,
                    same=sum(len(set(each)) == 1 for each in zip(*found[engine.name], strict=True)),
                    seconds=[each for (each,) in seconds],
                    operations=tuple(map(engine.operations, batches)) if profile else None,
                )
            )
    return rows


def table(rows: Sequence[Row]) -> Cells:
    """The figures of all engines."""

    def score(row: Row, metric: str) -> str:
        return f"{row.scores[metric]['score']:.1f}" if row.scores else ""

    columns: dict[str, Callable[[Row], str]] = {
        "text": lambda row: row.corpus,
        "engine": lambda row: row.engine,
        "sentences/s": lambda row: bracketed(row.rate),
        f"times as fast as {rows[0].engine}": lambda row: bracketed(row.ratio, 2),
        "words/s": lambda row: f"{row.tokens:,.0f}",
        "sacreBLEU": lambda row: score(row, "sacrebleu"),
        "chrF2": lambda row: score(row, "chrf2"),
        "p50 ms": lambda row: milliseconds(row.latency, 0),
        "p99 ms": lambda row: milliseconds(row.latency, 1),
        "first s": lambda row: f"{row.first:.1f}",
        "peak MB": lambda row: f"{row.memory / 1e6:,.0f}",
        "MB on disk": lambda row: f"{row.size / 1e6:,.0f}",
    }
    return cells(rows, columns)


def profiles(rows: Sequence[Row]) -> list[Cells]:
    """Where the time goes: for each corpus a table of sentences together, and of single ones."""
    tables = []
    for corpus in dict.fromkeys(row.corpus for row in rows):
        spent = {row.engine: row.operations for row in rows if row.corpus == corpus and row.operations}
        for number, (how, count) in enumerate(PROFILED.items()):
            if spent:
                of_each = {name: both[number] for name, both in spent.items()}
                tables.append(profile_table(f"{corpus}, {count} sentences {how}", of_each))
    return tables


def read_corpus(text: str) -> Corpus:
    """``SOURCE`` or ``SOURCE:REFERENCE``, which have as many lines."""
    source, _, reference = text.partition(":")
    lines = list(read_lines(source))
    references = list(read_lines(reference)) if reference else None
    if not lines:
        raise UserError(f"{source}: is empty")
    if references is not None and len(references) != len(lines):
        raise UserError(
            f"{source} has {len(lines):,} lines, {reference} {len(references):,}: give files that are aligned"
        )
    return Corpus(Path(source).name, lines, references)


def run(args: argparse.Namespace) -> None:
    """What ``benchmark translate`` does with its options."""
    if len(set(args.engine)) < len(args.engine):
        raise UserError("an --engine is given twice")
    corpora = [read_corpus(text) for text in args.text]
    outputs = [path for path in (args.json, args.markdown, args.plot) if path is not None]
    check_outputs(outputs, [args.data, *(path for text in args.text for path in text.split(":"))])
    for path in outputs:
        check_can_be_written(path)
    if any(corpus.references for corpus in corpora):
        sacre_bleu(args.languages[1])  # a missing package is found now, not after the translations
    elif args.plot is not None:
        raise UserError("--plot: is of BLEU: give --text SOURCE:REFERENCE")
    if args.plot is not None and not importlib.util.find_spec("matplotlib"):
        raise UserError("--plot needs matplotlib: pip install matplotlib")
    settings = {"data": str(args.data), "languages": args.languages, "threads": args.threads, "beam": args.beam}
    conditions = Conditions(threads=args.threads, beam=args.beam)
    command = shlex.join(["resmlp-mt", "benchmark", "translate", *sys.argv[1:]])
    date, machine = now(), describe(threads=args.threads)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)  # of the processes that are started now
    with ExitStack() as stack:
        engines = []
        for name in args.engine:
            source = Source(System(name), Size(), conditions, str(args.data), tuple(args.languages))
            engines.append(TextEngine(source, stack.enter_context(tempfile.TemporaryDirectory())))
            stack.callback(engines[-1].process.close)
        rows = compare(engines, corpora, args.languages[1], args.rounds, args.profile)
    tables = [table(rows), *profiles(rows)]
    print("\n\n".join([text_table(tables[0], left=2), *map(text_table, tables[1:])]))
    if args.json is not None:
        about = {"command": command, "date": date, "machine": machine, "settings": {**settings, "rounds": args.rounds}}
        write_json(args.json, {**about, "rows": [asdict(row) for row in rows]})
    if args.markdown is not None:
        with atomic_write(args.markdown) as stream:
            shown = "\n\n".join(map(markdown_table, tables))
            stream.write(f"Made on {date} by\n\n    {command}\n\n{facts(machine)}.\n\n{shown}\n")
    if args.plot is not None:
        from resmlp_mt.lab.benchmarks.plots import draw_frontier

        draw_frontier(rows, args.plot)
