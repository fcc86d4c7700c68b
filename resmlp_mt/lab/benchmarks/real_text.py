"""Engines that translate real text, from text to text, in turns: speed, quality, latency, memory, size."""

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import read_parallel, write_json, write_whole
from resmlp_mt.common.progress import markdown_table, text_table
from resmlp_mt.data.binarized import read_dictionary
from resmlp_mt.data.raw_text import RawText
from resmlp_mt.lab.benchmarks import report
from resmlp_mt.lab.benchmarks.engines import EngineProcess, FolderEngine
from resmlp_mt.lab.benchmarks.measuring import Quartiles, Times, latency, measure, per_second, speed_ratio
from resmlp_mt.lab.benchmarks.rivals import builder
from resmlp_mt.lab.benchmarks.systems import Conditions, Size, Source, System
from resmlp_mt.lab.benchmarks.workloads import FairseqEngine
from resmlp_mt.lab.drawing import check_files, colors_of, new_figure, save
from resmlp_mt.lab.machine import describe, facts, made_by
from resmlp_mt.score.scoring import Score, detokenized_scores, sacre_bleu
from resmlp_mt.text.tokenizer import Tokenizer

ALONE = 1000  # sentences that are translated one at a time, for the latency
BEST = "best"  # an option of CTranslate2 and Marian: the fastest of the settings that are tried
PART = 256  # sentences on which the settings are tried


@dataclass(frozen=True)
class Corpus:
    """Lines of text and, if there are any, their references."""

    name: str
    lines: list[str]
    references: list[str] | None = None


@dataclass(frozen=True)
class Row:
    engine: str
    corpus: str
    sentences: int
    rate: Quartiles  # sentences a second
    ratio: Quartiles  # the speed over the baseline's, round by round
    words: float  # of the source, separated by blanks, per second
    scores: dict[str, Score] | None  # sacreBLEU and chrF2, if there are references
    latency: tuple[float, float]  # percentiles 50 and 99 of the seconds for a single sentence
    first: float  # seconds from the start of its process to the first translation; only a FOLDER's loads a tokenizer
    memory: int  # peak of its process until now, in bytes, including its libraries and, of a FOLDER, the tokenizer
    size: int  # bytes on disk
    same: int  # sentences with the same translation in every round
    tried: list[tuple[dict[str, Any], float]]  # for BEST: settings and their seconds, fastest first
    seconds: list[float]  # of each round


class TextEngine:
    """An engine that translates text in its own process. ``folder``, which is empty, gets converted models.

    If BEST is among a rival's options, its settings are tried on ``part``, lines of text.

    The source's system is ``model.pt`` (with fairseq's search), ``ctranslate2/model.pt`` or ``.npz``,
    ``marian/model.npz``, or a folder made by ``resmlp-mt export``. For an engine that needs subwords, this process
    splits the text and joins the translations; that time counts.
    """

    def __init__(self, source: Source, folder: str, part: Sequence[str] = ()):
        system, conditions = source.system, source.conditions
        self.name, path = system.name, Path(system.path)
        if not path.exists():
            raise UserError(f"{self.name}: no such checkpoint or folder")
        if system.rival and path.is_dir():
            raise UserError(f"{self.name}: is a folder: give the checkpoint or .npz that it was made from")
        if system.library != "blas" and (path.is_dir() or system.rival):
            raise UserError(f"{self.name}: @{system.library} is for checkpoints in fairseq's own search: leave it out")
        self._tokenizer: Tokenizer | None = None
        self._build: Any
        if path.is_dir():
            self._build = partial(FolderEngine, str(path), conditions.threads, conditions.beam, system.overrides)
        else:
            raw = RawText.of(str(source.data))
            symbols = [read_dictionary(raw.folder / f"dict.{name}.txt").symbols for name in source.languages]
            settings = raw.settings(*source.languages)
            self._tokenizer = Tokenizer(settings, raw.folder / raw.learned, *symbols)
            self._build = builder(source, folder) if system.rival else partial(FairseqEngine, source)
        place = Path(folder, "converted") if system.rival else path
        self.size = sum(file.stat().st_size for file in (place, *place.rglob("*")) if file.is_file())
        self.tried: list[tuple[dict[str, Any], float]] = []
        if system.rival and system.overrides.get(BEST):
            self.choose(part, conditions.threads)
        else:
            self.process = self._start()

    def choose(self, lines: Sequence[str], threads: int) -> None:
        """Try the rival's ``settings`` where its own options leave a choice, twice each, and take the fastest."""
        engine, (*others, options) = self._build.func, self._build.args
        own = {name: value for name, value in options.items() if name != BEST}
        for more in engine.settings(threads):
            chosen = {name: own.get(name, value) for name, value in more.items()}
            if chosen not in [each for each, _ in self.tried]:
                self._build = partial(engine, *others, {**own, **chosen})
                with closing(self._start()) as self.process:
                    self.tried.append((chosen, min(self.translate(lines)[1] for _ in range(2))))
        self.tried.sort(key=lambda each: each[1])
        self._build = partial(engine, *others, {**own, **self.tried[0][0]})
        self.process = self._start()

    def _start(self) -> EngineProcess:
        try:
            return EngineProcess(self._build)
        except (TypeError, ValueError, BrokenProcessPool) as error:  # the last one: Marian has ended its process
            raise UserError(f"{self.name}: {str(error).splitlines()[0]}") from error

    def first_sentence(self, line: str) -> float:
        """Seconds from the start of another process until it has translated a sentence."""
        start = time.perf_counter()
        with closing(self._start()) as process:
            process.translate(self._prepared([line]))
            return time.perf_counter() - start

    def translate(self, lines: Sequence[str]) -> tuple[list[str], float]:
        """Return translations and their seconds, from text to text, without the transfer between processes."""
        start = time.perf_counter()
        sentences = self._prepared(lines)
        before = time.perf_counter() - start
        translations, seconds = self.process.translate(sentences)
        start = time.perf_counter()
        if self._tokenizer:  # an empty source has an empty translation
            translations = [
                self._tokenizer.decode(self._tokenizer.numbers(translation, target=True)) if source else ""
                for source, translation in zip(sentences, translations, strict=True)
            ]
        return translations, before + seconds + time.perf_counter() - start

    def _prepared(self, lines: Sequence[str]) -> list[Any]:
        return list(map(self._tokenizer.pieces, lines)) if self._tokenizer else list(lines)


def compare(engines: Sequence[TextEngine], corpora: Sequence[Corpus], language: str, rounds: int) -> list[Row]:
    """Let every engine translate every corpus once per round, in turns, and then single sentences, also in turns."""
    first = {engine.name: engine.first_sentence(corpora[0].lines[0]) for engine in engines}
    rows = []
    for corpus in corpora:
        lines, count = corpus.lines, len(corpus.lines)
        found, times = translate_in_turns(engines, [lines], rounds)
        _, singly = translate_in_turns(engines, [[line] for line in lines[:ALONE]], 1)
        for engine in engines:
            name, seconds = engine.name, times[engine.name]
            scores = detokenized_scores(found[name][-1], corpus.references, language) if corpus.references else None
            rows.append(
                Row(
                    engine=name,
                    corpus=corpus.name,
                    sentences=count,
                    rate=per_second(count, seconds),
                    ratio=speed_ratio(seconds, times[engines[0].name]),
                    words=sum(len(line.split()) for line in lines) / float(np.median(seconds)),
                    scores=scores,
                    latency=latency(singly[name]),
                    first=first[name],
                    memory=engine.process.peak(),
                    size=engine.size,
                    same=sum(len(set(each)) == 1 for each in zip(*found[name], strict=True)),
                    tried=engine.tried,
                    seconds=[each for (each,) in seconds],
                )
            )
    return rows


def translate_in_turns(
    engines: Sequence[TextEngine], batches: Sequence[Sequence[str]], rounds: int
) -> tuple[dict[str, list[list[str]]], dict[str, Times]]:
    found: dict[str, list[list[str]]] = {engine.name: [] for engine in engines}

    def seconds(number: int, engine: TextEngine) -> float:
        translations, taken = engine.translate(batches[number])
        found[engine.name].append(translations)
        return taken

    work = {engine.name: partial(seconds, engine=engine) for engine in engines}
    return found, measure(work, len(batches), rounds, warmup=1)


def table(rows: Sequence[Row]) -> report.Cells:
    def score(row: Row, metric: str) -> str:
        return f"{row.scores[metric]['score']:.1f}" if row.scores else ""

    columns: dict[str, Callable[[Row], str]] = {
        "text": lambda row: row.corpus,
        "engine": lambda row: row.engine,
        "sentences/s": lambda row: f"{row.rate:,.0f}",
        f"times as fast as {rows[0].engine}": lambda row: f"{row.ratio:,.2f}",
        "source words/s": lambda row: f"{row.words:,.0f}",
        "sacreBLEU": lambda row: score(row, "sacrebleu"),
        "chrF2": lambda row: score(row, "chrf2"),
        "p50 ms": lambda row: f"{1e3 * row.latency[0]:.1f}",
        "p99 ms": lambda row: f"{1e3 * row.latency[1]:.1f}",
        "first s": lambda row: f"{row.first:.1f}",
        "peak MB": lambda row: f"{row.memory / 1e6:,.0f}",
        "MB on disk": lambda row: f"{row.size / 1e6:,.0f}",
    }
    return report.cells(rows, columns)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw BLEU against speed, with a panel for each text that has references; there must be one."""
    texts = list(dict.fromkeys(row.corpus for row in rows if row.scores))
    figure = new_figure(6.5 * len(texts), 5.5)
    colors = colors_of(row.engine for row in rows)
    for axis, text in zip(figure.subplots(1, len(texts), squeeze=False)[0], texts, strict=True):
        points = {
            row.engine: (row.words, row.scores["sacrebleu"]["score"])
            for row in rows
            if row.corpus == text and row.scores
        }
        for (name, point), marker in zip(points.items(), itertools.cycle("os^DvP*X<>")):
            axis.plot(*point, marker, color=colors[name], label=name, markersize=7)
        axis.step(*zip(*frontier(points.values()), strict=True), where="post", color="0.6", zorder=0, label="the best")
        axis.set(xlabel="source words/s", ylabel="sacreBLEU", title=text)
        axis.set_xlim(left=0)
        axis.grid(alpha=0.3)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
    save(figure, path)


def frontier(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points (speed, quality) that no other point equals or beats in both, the fastest first."""
    best: list[tuple[float, float]] = []
    for point in sorted(set(points), reverse=True):
        if not best or point[1] > best[-1][1]:
            best.append(point)
    return best


def read_corpus(text: str) -> Corpus:
    """Read ``SOURCE`` or ``SOURCE:REFERENCE``, files with the same number of lines."""
    source, _, reference = text.partition(":")
    paths = [source, reference] if reference else [source]
    sides = [list(side) for side in zip(*read_parallel(paths), strict=True)]
    if not sides:
        raise UserError(f"{source}: is empty")
    return Corpus(Path(source).name, sides[0], sides[1] if reference else None)


def run(args: argparse.Namespace) -> None:
    fastest, rivals = {"ctranslate2": "compute_type=int8,best", "marian": BEST}, []
    for name in args.rival:
        if not (engine := System(name).rival):
            raise UserError(f"--rival {name}: give ctranslate2/MODEL or marian/MODEL; --engine takes other engines")
        model, _, own = name.partition(":")
        rivals.append(f"{model}:{fastest[engine]},{own}".removesuffix(","))
    names = [*rivals, *(f"{name}:engine=compiled,precision=int8" for name in args.folder), *args.engine]
    if not names or len(set(names)) < len(names):
        raise UserError("give a FOLDER, --rival or --engine, each engine once")
    corpora = [read_corpus(text) for text in args.text]
    if len({corpus.name for corpus in corpora}) < len(corpora):
        raise UserError("--text: two files have one name, by which figures are told apart: rename one")
    outputs = [path for path in (args.json, args.markdown, args.plot) if path is not None]
    inputs = [args.data, *(path for text in args.text for path in text.split(":", 1))]
    check_files(outputs, inputs, "--plot" if args.plot else None)
    if any(corpus.references for corpus in corpora):
        sacre_bleu(args.languages[1])  # a missing package is found now, not after the translations
    elif args.plot:
        raise UserError("--plot: is of BLEU: give --text SOURCE:REFERENCE")
    conditions = Conditions(threads=args.threads, beam=args.beam)
    settings = {name: getattr(args, name) for name in ("languages", "threads", "beam", "rounds")}
    about: dict[str, Any] = {
        **made_by("resmlp-mt benchmark translate"),
        "machine": describe(threads=args.threads),
        "settings": {"data": str(args.data), **settings},
    }
    os.environ["OMP_NUM_THREADS"] = str(args.threads)  # for the processes that are started from now on
    with ExitStack() as stack:
        engines = []
        for name in names:
            source = Source(System(name), Size(), conditions, str(args.data), tuple(args.languages))
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            engines.append(TextEngine(source, folder, corpora[0].lines[:PART]))
            stack.callback(engines[-1].process.close)
        rows = compare(engines, corpora, args.languages[1], args.rounds)
    figures = table(rows)
    print(text_table(figures, left=2))
    chosen = {row.engine: row.tried[0][0] for row in rows if row.tried}
    notes = [f"{name}: {', '.join(f'{key} {value}' for key, value in best.items())}" for name, best in chosen.items()]
    print("\n".join(notes))
    if args.json:
        write_json(args.json, {**about, "rows": [asdict(row) for row in rows]})
    if args.markdown:
        made = f"Made on {about['date']} by\n\n    {about['command']}\n\n{facts(about['machine'])}."
        write_whole(args.markdown, "\n\n".join([made, markdown_table(figures), *notes]) + "\n")
    if args.plot:
        draw(rows, args.plot)
