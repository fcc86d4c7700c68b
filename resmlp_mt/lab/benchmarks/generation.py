"""Generation by engines that take turns, with every translation of a batch forced to one length."""

import importlib
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationTask

from resmlp_mt.lab.analysis.flops import TranslationModel
from resmlp_mt.lab.benchmarks.batches import Shape, random_sentences, spread_lengths
from resmlp_mt.lab.benchmarks.comparison import Comparison, Measurement, Workload, compare
from resmlp_mt.lab.benchmarks.fairseq_engine import FairseqEngine, builder
from resmlp_mt.lab.benchmarks.processes import EngineProcess, peak
from resmlp_mt.lab.benchmarks.systems import TINY, Source, System


@dataclass(frozen=True)
class Piece:
    """A batch of source sentences in subwords, and how many each translation has, ``</s>`` included."""

    sources: list[list[str]]
    length: int

    @property
    def tokens(self) -> int:
        return self.length * len(self.sources)


def words_of(sentence: torch.Tensor, dictionary: Dictionary) -> list[str]:
    """The subwords of a sentence that ends with ``</s>``."""
    return [dictionary[number] for number in sentence[:-1].tolist()]


def random_piece(shape: Shape, padding: float, dictionary: Dictionary) -> Piece:
    """Random sentences of that shape, and translations as long as the longest."""
    sentences = random_sentences(spread_lengths(shape, padding), dictionary, 1)
    return Piece([words_of(sentence, dictionary) for sentence in sentences], shape.length)


def real_pieces(task: TranslationTask, split: str, count: int, batch_size: int) -> list[Piece]:
    """Sentences taken evenly from a split of the task's data, in batches of similar length, shortest first.

    Every translation of a batch has the mean length of its references, or of its sources where there are none.
    """
    task.load_dataset(split)
    dataset = task.dataset(split)
    chosen = torch.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().long().tolist()
    pairs = sorted((dataset[index] for index in chosen), key=lambda pair: len(pair["source"]))
    pieces = []
    for start in range(0, len(pairs), batch_size):
        part = pairs[start : start + batch_size]
        references = [pair["target"] if pair["target"] is not None else pair["source"] for pair in part]
        length = round(sum(map(len, references)) / len(references))
        pieces.append(Piece([words_of(pair["source"], task.source_dictionary) for pair in part], max(2, length)))
    return pieces


def source_of(comparison: Comparison, name: str, data: str | None) -> Source:
    return Source(System(name), comparison.size, comparison.conditions, data)


def generate(comparison: Comparison, data: str | None = None, split: str = "test") -> Iterator[Measurement]:
    """Time the translating of every system.

    Args:
        data: take sentences of this folder in the place of random ones; of the shapes the number of sentences counts
            alone
    """
    comparison.conditions.apply()
    task = source_of(comparison, comparison.baseline, data).task()
    with ExitStack() as stack:
        builds: dict[str, Callable[[], Any]] = {}
        engines: dict[str, EngineProcess] = {}
        for system in comparison.systems:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            source = source_of(comparison, system.name, data)
            builds[system.name] = builder(source, folder, comparison.baseline)
            engines[system.name] = EngineProcess(builds[system.name], start_of(builds[system.name]))
            stack.callback(engines[system.name].close)
        formulas = {
            system.name: engines[comparison.baseline if system.is_ctranslate2 else system.name].ask("formula")
            for system in comparison.systems
        }

        def profile(name: str) -> dict[str, float]:
            return engines[name].operations([(last.sources, last.length)], comparison.conditions.device)

        for shape in comparison.shapes:
            if data is None:
                piece = random_piece(shape, comparison.padding, task.source_dictionary)
                pieces = [piece] * math.ceil(comparison.sentences / shape.sentences)
            else:
                pieces = real_pieces(task, split, max(comparison.sentences, shape.sentences), shape.sentences)
            tokens, last = sum(piece.tokens for piece in pieces), pieces[-1]
            sentences = sum(len(piece.sources) for piece in pieces)
            yield from compare(
                comparison,
                Workload(
                    str(shape) if data is None else f"{sentences} by {shape.sentences}",
                    tokens / sentences if data else shape.length,
                    shape.sentences,
                    tokens,
                    len(pieces),
                    last.tokens,
                ),
                {name: checked(name, engine.translate, pieces) for name, engine in engines.items()},
                {name: flops_per_token(comparison, formula, pieces) for name, formula in formulas.items()},
                peaks(comparison, builds, last),
                profile,
            )


def start_of(build: Any) -> str:
    """How the process of an engine starts: one with fairseq can have it imported already."""
    return "forkserver" if build.func is FairseqEngine else "spawn"


def checked(name: str, translate: Callable[..., tuple[list[Any], float]], pieces: Sequence[Piece]) -> Any:
    """The seconds of translating piece ``number``, if its translations are as long as told."""

    def seconds(number: int) -> float:
        piece = pieces[number]
        translations, taken = translate(piece.sources, piece.length)
        lengths = list(map(len, translations))
        if lengths != [piece.length] * len(piece.sources):
            raise RuntimeError(f"{name}: translations of {lengths} subwords, not {piece.length}")
        return taken

    return seconds


def peaks(comparison: Comparison, builds: Mapping[str, Any], piece: Piece) -> dict[str, int]:
    """By system, the peak memory of building its engine and translating a piece."""
    if not comparison.memory:
        return {}
    tiny = partial(FairseqEngine, source_of(replace(comparison, size=TINY), "transformer", None))
    found = {}
    for name, build in builds.items():
        rehearsal: Callable[[], object] = partial(translate_alone, tiny, Piece([[]], 2))
        if start_of(build) == "spawn":
            rehearsal = partial(importlib.import_module, "ctranslate2")
        work = partial(translate_alone, build, piece)
        found[name] = peak(work, rehearsal, comparison.conditions.device, start_of(build))
    return found


def translate_alone(build: Callable[[], Any], piece: Piece) -> None:
    build().translate(piece.sources, piece.length)


def flops_per_token(comparison: Comparison, formula: TranslationModel | None, pieces: Sequence[Piece]) -> float | None:
    """FLOPs a target token; the encoder reads a sentence once, every beam decodes it step by step.

    Each beam has keys and values of its own, but on the CPU those of a ResMLP share them.
    """
    if formula is None:
        return None
    total, beam = 0.0, comparison.conditions.beam
    shared = beam - 1 if formula.beams_share and comparison.conditions.device == "cpu" else 0
    for piece in pieces:
        source = max(map(len, piece.sources)) + 1
        decoding = beam * step_by_step(formula, source, piece.length) - shared * formula.kept(source)
        total += (formula.encoder(source) + decoding) * len(piece.sources)
    return total / sum(piece.tokens for piece in pieces)


def step_by_step(formula: TranslationModel, source: int, target: int) -> float:
    """FLOPs of the decoder, one position after the other.

    Position t costs what each of t positions costs at once: squares over positions, whole at once, are triangles here.
    Keys and values are there once, and what is beyond the last position (``ConvS2S``) is not there.
    """
    without = formula.decoder(source, 0)
    steps = ((formula.decoder(source, length) - without) / length for length in range(1, target + 1))
    return formula.kept(source) + sum(steps)
