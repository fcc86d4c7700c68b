"""What is timed: fairseq's training step, by one process and by several, and translating by engines in turns.

Sentences are random or real. Every translation of a batch is forced to one length.
"""

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.distributed.utils import distributed_init
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.matmul import matmul
from resmlp_mt.data.binarized import made_up_dictionary
from resmlp_mt.lab.analysis import flops
from resmlp_mt.lab.benchmarks import measuring
from resmlp_mt.lab.benchmarks.engines import EngineProcess, new_processes, operations, peak
from resmlp_mt.lab.benchmarks.measuring import Measurement, Times, Workload, compare, timed
from resmlp_mt.lab.benchmarks.systems import TINY, Comparison, Shape, Source, System, batch, formula_of
from resmlp_mt.lab.models import build_model

BATCH = 64  # sentences that fairseq translates at a time
STEPS = 3  # of several processes, that are timed in a row

Piece = tuple[list[list[str]], int]
"""A batch of source sentences in subwords, and how many each translation has, ``</s>`` included."""


class Training:
    """A system in training by fairseq's Trainer, with further arguments: forward and backward pass, Adam's step."""

    def __init__(self, system: System, comparison: Comparison, arguments: Sequence[str] = ()):
        comparison.conditions.apply()
        self.config = system.config(comparison.size, comparison.conditions, arguments)
        self.dictionary = made_up_dictionary(comparison.size.vocabulary)
        task = TranslationTask(self.config.task, self.dictionary, self.dictionary)
        model, criterion = build_model(self.config, task), task.build_criterion(self.config.criterion)
        self.trainer, self._library = Trainer(self.config, task, model, criterion), system.library

    def step(self, batch: dict[str, Any], _: int = 0) -> None:
        with matmul(self._library):
            self.trainer.train_step([batch])

    def flops_per_token(self, shape: Shape, tokens: int) -> float | None:
        """FLOPs a real target token of a step; padding costs what tokens do."""
        formula = formula_of(self.config, len(self.dictionary))
        if formula is None:
            return None
        return flops.TRAINING * shape.sentences * formula.forward(shape.length, shape.length) / tokens


def train(comparison: Comparison) -> Iterator[Measurement]:
    trainings = {system.name: Training(system, comparison) for system in comparison.systems}
    rehearsal = partial(two_steps, replace(comparison, size=TINY), System("transformer"), Shape(2, 1))
    device = comparison.conditions.device
    for shape in comparison.shapes:
        peaks = {}
        for system in comparison.systems if comparison.memory else ():
            peaks[system.name] = peak(partial(two_steps, comparison, system, shape), rehearsal, device)
        batch = shape.random_batch(comparison.padding, trainings[comparison.baseline].dictionary)
        tokens = batch["ntokens"]
        steps = {name: partial(training.step, batch) for name, training in trainings.items()}
        yield from compare(
            comparison,
            Workload(str(shape), shape.length, shape.sentences, [tokens]),
            {name: timed(step) for name, step in steps.items()},
            {name: training.flops_per_token(shape, tokens) for name, training in trainings.items()},
            peaks,
            {name: partial(operations, step, device) for name, step in steps.items()},
        )


def two_steps(comparison: Comparison, system: System, shape: Shape) -> None:
    """The second step has the optimizer's state beside the activations from its beginning."""
    training = Training(system, comparison)
    batch = shape.random_batch(comparison.padding, training.dictionary)
    for _ in range(2):
        training.step(batch)


def train_together(comparison: Comparison, processes: int) -> Iterator[Measurement]:
    """Time the training of every system by one process and by several; every round starts processes afresh."""
    for shape in comparison.shapes:
        tokens = shape.random_batch(comparison.padding, made_up_dictionary(comparison.size.vocabulary))["ntokens"]
        for system in comparison.systems:
            # seconds a batch: several processes do several batches at a time
            seconds: dict[int, Times] = {1: [], processes: []}
            for _, _, count in measuring.turns(list(seconds), 1, comparison.rounds):
                seconds[count].append([time_steps(comparison, system, shape, count) / count])
            for count, times in seconds.items():
                name = f"{system.name}, {count} process{'es' if count > 1 else ''}"
                batch = str(shape), shape.length, shape.sentences, tokens
                rate, ratio = measuring.per_second(STEPS * tokens, times), measuring.speed_ratio(times, seconds[1])
                yield Measurement(name, *batch, rate, ratio, flop_ratio=float(count), seconds=times)


def time_steps(comparison: Comparison, system: System, shape: Shape, processes: int) -> float:
    with tempfile.TemporaryDirectory() as folder, new_processes(processes) as executor:
        work = partial(_steps, comparison, system, shape, processes, f"file://{folder}/meeting")
        return max(executor.map(work, range(processes)))


def _steps(comparison: Comparison, system: System, shape: Shape, processes: int, meeting: str, rank: int) -> float:
    arguments: list[str] = []
    if processes > 1:
        on_gpu = comparison.conditions.device == "cuda"
        # torch's DistributedDataParallel as fairseq calls it takes GPUs only; the other is fairseq's own
        backends = ("nccl", "pytorch_ddp") if on_gpu else ("gloo", "legacy_ddp")
        arguments = [
            "--distributed-world-size", str(processes), "--distributed-rank", str(rank),
            "--distributed-init-method", meeting, "--distributed-no-spawn",
            "--distributed-backend", backends[0], "--ddp-backend", backends[1], "--local_rank", str(rank),
        ]  # fmt: skip
        if on_gpu:
            torch.cuda.set_device(rank)
        distributed_init(system.config(comparison.size, comparison.conditions, arguments))
    training = Training(system, comparison, arguments)
    step = timed(partial(training.step, shape.random_batch(comparison.padding, training.dictionary)))
    for number in range(max(1, comparison.warmup)):  # the first step also connects the processes
        step(number)
    return sum(map(step, range(STEPS)))


class FairseqEngine:
    """A model in fairseq's search, prepared as fairseq-generate prepares it.

    A checkpoint's options are the system's instead of its own; ``batch_size=64`` sentences unless given.
    """

    def __init__(self, source: Source):
        source.conditions.apply()
        self._name, self._library, self._device = source.system.name, source.system.library, source.conditions.device
        overrides = source.system.overrides
        self._batch_size = overrides.pop("batch_size", BATCH)
        config, model, self.task = source.load(**overrides)
        config.generation.beam = source.conditions.beam
        model.eval()
        if source.conditions.fp16:
            model.half()
        model.to(self._device)
        model.prepare_for_inference_(config)
        for module in model.modules():
            if hasattr(module, "can_use_fastpath"):  # fairseq 0.12.2 calls a fused layer as PyTorch 1 had it
                module.can_use_fastpath = False
        self.generator = self.task.build_generator([model], config.generation)
        self.formula = formula_of(config, len(self.task.target_dictionary))

    def translate(self, sentences: Sequence[list[str]], length: int | None = None) -> list[list[str]]:
        """Untrained models never end a sentence where a trained one would, so they are told the length."""
        size = self._batch_size
        if length is not None:
            if length > self.generator.max_len:
                raise UserError(
                    f"{self._name}: {length} subwords, but the model has {self.generator.max_len} positions: give "
                    f"shorter sentences, or an untrained model max_source_positions and max_target_positions"
                )
            self.generator.max_len_a, self.generator.min_len, self.generator.max_len_b = 0, length - 1, length - 1
            size = len(sentences)
        order = sorted(range(len(sentences)), key=lambda number: len(sentences[number]))
        found: dict[int, list[str]] = {}
        for start in range(0, len(order), size):
            found |= self._search({number: sentences[number] for number in order[start : start + size]})
        return [found[number] for number in range(len(sentences))]

    def _search(self, sentences: Mapping[int, list[str]]) -> dict[int, list[str]]:
        dictionary, target = self.task.source_dictionary, self.task.target_dictionary
        sources = {
            number: torch.tensor([*map(dictionary.index, words), dictionary.eos()])
            for number, words in sentences.items()
        }
        sample = batch({number: (each, each) for number, each in sources.items()}, dictionary)
        if self._device == "cuda":
            sample = utils.move_to_cuda(sample)
        with matmul(self._library):
            found = self.generator.generate([], sample)
        best = [[target[index] for index in beams[0]["tokens"].tolist()] for beams in found]
        return dict(zip(sample["id"].tolist(), best, strict=True))


def piece_of(sentences: Iterable[Tensor], dictionary: Dictionary, length: int) -> Piece:
    """Of sentences in numbers that end with ``</s>``."""
    return [[dictionary[number] for number in each[:-1].tolist()] for each in sentences], length


def random_piece(shape: Shape, padding: float, dictionary: Dictionary) -> Piece:
    """Random sentences of that shape, and translations as long as the longest."""
    return piece_of(shape.random_sentences(padding, dictionary, 1), dictionary, shape.length)


def real_pieces(task: TranslationTask, split: str, count: int, batch_size: int) -> list[Piece]:
    """Sentences taken evenly from a split of the task's data, in batches of similar length, shortest first.

    Every translation of a batch has the mean length of its references.
    """
    task.load_dataset(split)
    dataset = task.dataset(split)
    chosen = torch.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().long().tolist()
    pairs = sorted((dataset[index] for index in chosen), key=lambda pair: len(pair["source"]))
    pieces = []
    for start in range(0, len(pairs), batch_size):
        part = pairs[start : start + batch_size]
        length = max(2, round(sum(len(pair["target"]) for pair in part) / len(part)))
        pieces.append(piece_of((pair["source"] for pair in part), task.source_dictionary, length))
    return pieces


def generate(comparison: Comparison, data: str | None = None, split: str = "test") -> Iterator[Measurement]:
    """Time the translating of random sentences, or of ``data``: then the shapes' numbers of sentences count alone."""
    sources = {each.name: Source(each, comparison.size, comparison.conditions, data) for each in comparison.systems}
    task = sources[comparison.baseline].task()
    engines: dict[str, EngineProcess] = {}

    def seconds(number: int, name: str) -> float:
        return engines[name].translate(*pieces[number])[1]

    with ExitStack() as stack:
        for name, source in sources.items():
            engines[name] = stack.enter_context(closing(EngineProcess(partial(FairseqEngine, source), "forkserver")))
        for shape in comparison.shapes:
            if data is None:
                piece = random_piece(shape, comparison.padding, task.source_dictionary)
                pieces = [piece] * math.ceil(comparison.sentences / shape.sentences)
            else:
                pieces = real_pieces(task, split, max(comparison.sentences, shape.sentences), shape.sentences)
            tokens, count = [length * len(each) for each, length in pieces], sum(len(each) for each, _ in pieces)
            label, length = str(shape), float(shape.length)
            if data is not None:
                label, length = f"{count} by {shape.sentences}", sum(tokens) / count
            costs = {name: flops_per_token(comparison, engine.formula, pieces) for name, engine in engines.items()}
            last, device = [pieces[-1]], comparison.conditions.device
            yield from compare(
                comparison,
                Workload(label, length, shape.sentences, tokens),
                {name: partial(seconds, name=name) for name in engines},
                costs,
                peaks(comparison, sources, pieces[-1]),
                {name: partial(engine.operations, last, device) for name, engine in engines.items()},
            )


def peaks(comparison: Comparison, sources: Mapping[str, Source], piece: Piece) -> dict[str, int]:
    """By system, the peak memory of building its engine and translating a piece."""
    if not comparison.memory:
        return {}
    tiny = partial(translate_alone, Source(System("transformer"), TINY, comparison.conditions), ([[]], 2))
    device = comparison.conditions.device
    return {name: peak(partial(translate_alone, source, piece), tiny, device) for name, source in sources.items()}


def translate_alone(source: Source, piece: Piece) -> None:
    FairseqEngine(source).translate(*piece)


def flops_per_token(
    comparison: Comparison, formula: flops.TranslationModel | None, pieces: Sequence[Piece]
) -> float | None:
    """FLOPs a target token; the encoder reads a sentence once, every beam decodes it step by step."""
    if formula is None:
        return None
    total, beam = 0.0, comparison.conditions.beam
    shared = beam - 1 if formula.beams_share and comparison.conditions.device == "cpu" else 0
    for sources, length in pieces:
        source = max(map(len, sources)) + 1
        decoding = beam * step_by_step(formula, source, length) - shared * formula.kept(source)
        total += (formula.encoder(source) + decoding) * len(sources)
    return total / sum(length * len(sources) for sources, length in pieces)


def step_by_step(formula: flops.TranslationModel, source: int, target: int) -> float:
    """FLOPs of the decoder, one position after the other: squares over positions are triangles here."""
    without = formula.decoder(source, 0)
    steps = ((formula.decoder(source, length) - without) / length for length in range(1, target + 1))
    return formula.kept(source) + sum(steps)
