"""Translating real text, from text to text, by engines that take turns: speed, quality, latency, memory, size."""

import argparse
import json
import multiprocessing
import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, check_can_be_written, check_outputs, read_lines, write_json
from resmlp_mt.common.tables import facts, markdown_table, text_table
from resmlp_mt.lab.benchmarks.engines import Engine, Setting, build
from resmlp_mt.lab.benchmarks.profiling import operations, profile_table
from resmlp_mt.lab.benchmarks.timing import Spread, turns
from resmlp_mt.lab.machine import describe, now
from resmlp_mt.score.bleu import Score, detokenized_scores, sacre_bleu

ALONE = 100
"""Sentences that are translated one at a time, for the latency."""
PROFILED = 256, 8
"""Sentences that are translated together, and one at a time, for the profile, which takes long to sum up."""


@dataclass(frozen=True)
class Corpus:
    """Lines of text and, if there are any, their references."""

    name: str
    lines: list[str]
    references: list[str] | None = None


@dataclass(frozen=True)
class Row:
    """One engine on one corpus.

    Attributes:
        rate: sentences a second
        ratio: the speed over the baseline's, round by round
        tokens: words a second of the translations, as blanks divide them
        scores: sacreBLEU and chrF2, if there are references
        latency: percentiles 50 and 99 of the seconds that a sentence takes that is alone
        first: seconds until the first sentence is out, start of the process and loading included
        memory: peak of its process in bytes, PyTorch and all
        size: bytes on disk
        same: of how many sentences the translation is that of every round
        seconds: of each round
        operations: seconds by PyTorch operation, if asked for: of PROFILED sentences together, and one at a time
    """

    engine: str
    corpus: str
    sentences: int
    rate: Spread
    ratio: Spread
    tokens: float
    scores: dict[str, Score] | None
    latency: tuple[float, float]
    first: float
    memory: int
    size: int
    same: int
    seconds: list[float]
    operations: tuple[dict[str, float], dict[str, float]] | None = None


_engine: list[Engine] = []
"""The engine of this process."""


class EngineProcess:
    """An engine in a process of its own, so that its libraries' threads and memory are its own."""

    def __init__(self, name: str, setting: Setting):
        self.name = name
        self._process = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        self._process.submit(_load, name, setting).result()

    def translate(self, lines: Sequence[str]) -> tuple[list[str], float]:
        """Translations, and the seconds that they took."""
        return self._process.submit(_timed, lines).result()

    def operations(self, batches: Sequence[Sequence[str]]) -> dict[str, float]:
        """Seconds by PyTorch operation of translating these, one batch after the other."""
        return self._process.submit(_operations, batches).result()

    def sizes(self) -> tuple[int, int]:
        """Bytes: the peak of memory so far, and the model on disk."""
        return self._process.submit(_sizes).result()


def _load(name: str, setting: Setting) -> None:
    _engine[:] = [build(name, setting)]


def _timed(lines: Sequence[str]) -> tuple[list[str], float]:
    start = time.perf_counter()
    translations = _engine[0].translate(lines)
    return translations, time.perf_counter() - start


def _operations(batches: Sequence[Sequence[str]]) -> dict[str, float]:
    return operations(lambda: [_engine[0].translate(batch) for batch in batches], "cpu")


def _sizes() -> tuple[int, int]:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, _engine[0].size


def first_sentence(name: str, setting: Setting, line: str) -> float:
    """Seconds from the start of a new process until a sentence is translated."""
    command = [sys.executable, "-m", __name__, name, json.dumps(asdict(setting)), line]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def compare(
    names: Sequence[str],
    baseline: str,
    corpora: Sequence[Corpus],
    setting: Setting,
    rounds: int,
    profile: bool = False,
) -> list[Row]:
    """Every engine translates every corpus once a round, in turns, after a round that is not timed.

    Args:
        profile: in the end, also find out where the time goes; CTranslate2's is all outside of PyTorch
    """
    os.environ["OMP_NUM_THREADS"] = str(setting.threads)  # of the processes that are started now
    engines = {name: EngineProcess(name, setting) for name in names}
    first = {name: first_sentence(name, setting, corpora[0].lines[0]) for name in names}
    rows = []
    for corpus in corpora:
        found = {name: [engine.translate(corpus.lines)[0]] for name, engine in engines.items()}
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for _, _, name in turns(list(names), 1, rounds):
            translations, taken = engines[name].translate(corpus.lines)
            found[name].append(translations)
            seconds[name].append(taken)
        for name, engine in engines.items():
            alone = [engine.translate([line])[1] for line in corpus.lines[:ALONE]]
            memory, size = engine.sizes()
            together, singly = (corpus.lines[:count] for count in PROFILED)
            spent = (engine.operations([together]), engine.operations([[line] for line in singly])) if profile else None
            best = found[name][-1]
            rows.append(
                Row(
                    engine=name,
                    corpus=corpus.name,
                    sentences=len(best),
                    rate=Spread.of([len(best) / each for each in seconds[name]]),
                    ratio=Spread.of(
                        [theirs / ours for ours, theirs in zip(seconds[name], seconds[baseline], strict=True)]
                    ),
                    tokens=sum(len(line.split()) for line in best) / float(np.median(seconds[name])),
                    scores=detokenized_scores(best, corpus.references, setting.languages[1])
                    if corpus.references
                    else None,
                    latency=tuple(np.quantile(alone, (0.5, 0.99)).tolist()),
                    first=first[name],
                    memory=memory,
                    size=size,
                    same=sum(len(set(each)) == 1 for each in zip(*found[name], strict=True)),
                    seconds=seconds[name],
                    operations=spent,
                )
            )
    return rows


def table(rows: Sequence[Row], baseline: str) -> list[list[str]]:
    """A header and a line a row."""

    def score(row: Row, metric: str) -> str:
        return f"{row.scores[metric]['score']:.1f}" if row.scores else ""

    columns: dict[str, Any] = {
        "text": lambda row: row.corpus,
        "engine": lambda row: row.engine,
        "sentences/s": lambda row: f"{row.rate.median:,.0f} [{row.rate.low:,.0f} - {row.rate.high:,.0f}]",
        f"times as fast as {baseline}": lambda row: (
            f"{row.ratio.median:.2f} [{row.ratio.low:.2f} - {row.ratio.high:.2f}]"
        ),
        "words/s": lambda row: f"{row.tokens:,.0f}",
        "sacreBLEU": lambda row: score(row, "sacrebleu"),
        "chrF2": lambda row: score(row, "chrf2"),
        "p50 ms": lambda row: f"{1e3 * row.latency[0]:.1f}",
        "p99 ms": lambda row: f"{1e3 * row.latency[1]:.1f}",
        "first s": lambda row: f"{row.first:.1f}",
        "peak MB": lambda row: f"{row.memory / 1e6:,.0f}",
        "MB on disk": lambda row: f"{row.size / 1e6:,.0f}",
    }
    return [list(columns), *([show(row) for show in columns.values()] for row in rows)]


def profiles(rows: Sequence[Row]) -> list[list[list[str]]]:
    """Where the time goes: for each corpus a table of sentences together, and of single ones."""
    tables = []
    for corpus in dict.fromkeys(row.corpus for row in rows):
        spent = {row.engine: row.operations for row in rows if row.corpus == corpus and row.operations}
        for number, how in enumerate(("together", "one at a time")):
            if spent:
                title = f"{corpus}, {PROFILED[number]} sentences {how}"
                tables.append(profile_table(title, {name: both[number] for name, both in spent.items()}))
    return tables


def read_corpus(text: str) -> Corpus:
    """``SOURCE`` or ``SOURCE:REFERENCE``.

    Raises:
        UserError: a file cannot be read, or they have not as many lines
    """
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
    corpora = [read_corpus(text) for text in args.text]
    outputs = [path for path in (args.json, args.markdown, args.plot) if path is not None]
    texts = [path for text in args.text for path in text.split(":")]
    check_outputs(outputs, [*texts, args.data])
    for path in outputs:
        check_can_be_written(path)
    if any(corpus.references for corpus in corpora):
        sacre_bleu(args.languages[1])  # a missing package is found now, not after the translations
    elif args.plot is not None:
        raise UserError("--plot: is of BLEU: give --text SOURCE:REFERENCE")
    if args.plot is not None:
        try:
            from resmlp_mt.lab.benchmarks.frontier import draw
        except ImportError as error:
            raise UserError("--plot needs matplotlib: pip install matplotlib") from error
    setting = Setting(str(args.data), tuple(args.languages), args.threads, args.beam)
    baseline = args.engine[0]
    command = shlex.join(["resmlp-mt", "benchmark", "translate", *sys.argv[1:]])
    date = now()
    machine = describe(threads=args.threads)
    rows = compare(args.engine, baseline, corpora, setting, args.rounds, args.profile)
    lines, spent = table(rows, baseline), profiles(rows)
    print("\n\n".join([text_table(lines, left=2), *map(text_table, spent)]))
    if args.json is not None:
        settings = {**asdict(setting), "rounds": args.rounds}
        about = {"command": command, "date": date, "machine": machine, "settings": settings}
        write_json(args.json, {**about, "rows": [asdict(row) for row in rows]})
    if args.markdown is not None:
        with atomic_write(args.markdown) as stream:
            tables = "\n\n".join(map(markdown_table, [lines, *spent]))
            stream.write(f"Made on {date} by\n\n    {command}\n\n{facts(machine)}.\n\n{tables}\n")
    if args.plot is not None:
        draw(rows, args.plot)


def main() -> None:
    """For ``first_sentence``: translate one line."""
    name, setting, line = sys.argv[1:]
    values = json.loads(setting)
    print(build(name, Setting(**{**values, "languages": tuple(values["languages"])})).translate([line])[0])


if __name__ == "__main__":
    main()
