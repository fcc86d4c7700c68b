"""The work that is timed: fairseq's training step, and translation by engines that take turns.

Sentences are random. All translations of a batch are forced to the same length.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from fairseq import utils
from fairseq.data import Dictionary

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.matmul import matmul
from resmlp_mt.data.binarized import made_up_dictionary
from resmlp_mt.fairseq_plugin.task import Task
from resmlp_mt.fairseq_plugin.trainer import Trainer
from resmlp_mt.lab.analysis import flops
from resmlp_mt.lab.benchmarks.engines import EngineProcess, peak, start_of
from resmlp_mt.lab.benchmarks.measuring import Measurement, compare, timed
from resmlp_mt.lab.benchmarks.rivals import BATCH
from resmlp_mt.lab.benchmarks.systems import TINY, Comparison, Shape, Source, System, batch
from resmlp_mt.lab.models import build_model
from resmlp_mt.translate.precision import keep_freed_memory

Piece = tuple[list[list[str]], int]
"""A batch of source sentences in subwords, and the number of subwords of every translation, with ``</s>``."""


class Training:
    """A system and its training as by fairseq-train: forward and backward pass, Adam's step."""

    def __init__(self, system: System, comparison: Comparison):
        comparison.conditions.apply()
        self.config = system.config(comparison.size, comparison.conditions)
        self.dictionary = made_up_dictionary(comparison.size.vocabulary)
        task = Task(self.config.task, self.dictionary, self.dictionary)
        model, criterion = build_model(self.config, task), task.build_criterion(self.config.criterion)
        self.trainer, self._library = Trainer(self.config, task, model, criterion), system.library

    def step(self, batch: dict[str, Any], _: int = 0) -> None:
        with matmul(self._library):
            self.trainer.train_step([batch])
        if self.trainer.cuda:
            torch.cuda.synchronize()

    def flops_per_token(self, shape: Shape, tokens: int) -> float | None:
        """Return a step's FLOPs per real target token; padding costs as much as tokens."""
        if (formula := flops.of_options(self.config.model, len(self.dictionary))) is None:
            return None
        return flops.TRAINING * shape.sentences * formula.forward(shape.length, shape.length) / tokens


def train(comparison: Comparison) -> Iterator[Measurement]:
    trainings = {system.name: Training(system, comparison) for system in comparison.systems}
    rehearsal = partial(two_steps, replace(comparison, size=TINY), System("transformer"), Shape(2, 1))
    device = comparison.conditions.device
    for shape in comparison.shapes:
        batch = shape.random_batch(comparison.padding, trainings[comparison.baseline].dictionary)
        tokens = batch["ntokens"]
        yield from compare(
            comparison,
            shape,
            [tokens],
            {name: timed(partial(training.step, batch)) for name, training in trainings.items()},
            {name: training.flops_per_token(shape, tokens) for name, training in trainings.items()},
            {
                system.name: partial(peak, partial(two_steps, comparison, system, shape), rehearsal, device)
                for system in comparison.systems
            },
        )


def two_steps(comparison: Comparison, system: System, shape: Shape) -> None:
    """Train two steps: only the second has the optimizer's state in memory while activations are computed."""
    training = Training(system, comparison)
    batch = shape.random_batch(comparison.padding, training.dictionary)
    for _ in range(2):
        training.step(batch)


class FairseqEngine:
    """A model with fairseq's search, prepared as fairseq-generate prepares it.

    The system's options replace those of a checkpoint; ``batch_size`` is 64 sentences unless it is given.
    """

    def __init__(self, source: Source):
        source.conditions.apply()
        self._name, self._library, self._device = source.system.name, source.system.library, source.conditions.device
        overrides = source.system.overrides
        self._batch_size, beam = overrides.pop("batch_size", BATCH), overrides.pop("beam", source.conditions.beam)
        config, model, self.task = source.load(**overrides)
        config.generation.beam = beam
        model.eval()
        if source.conditions.fp16:
            model.half()
        model.to(self._device)
        model.prepare_for_inference_(config)
        keep_freed_memory()  # as our own engine does
        for module in model.modules():
            if hasattr(module, "can_use_fastpath"):  # fairseq 0.12.2 calls the fused layer of PyTorch 1
                module.can_use_fastpath = False
        self.generator = self.task.build_generator([model], config.generation)
        self.formula = flops.of_options(config.model, len(self.task.target_dictionary))

    def translate(self, sentences: Sequence[list[str]], length: int | None = None) -> list[list[str]]:
        """Translate; ``length`` fixes all lengths, since untrained models do not end sentences as trained ones do."""
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


def random_piece(shape: Shape, padding: float, dictionary: Dictionary) -> Piece:
    """Return random sentences of a shape; their translations are as long as the longest sentence."""
    sentences = shape.random_sentences(padding, dictionary, 1)
    return [[dictionary[number] for number in each[:-1].tolist()] for each in sentences], shape.length


def generate(comparison: Comparison) -> Iterator[Measurement]:
    """Time the translation of random sentences."""
    sources = {each.name: Source(each, comparison.size, comparison.conditions) for each in comparison.systems}
    dictionary = made_up_dictionary(comparison.size.vocabulary)
    engines: dict[str, EngineProcess] = {}
    device = comparison.conditions.device
    start = start_of(device)
    tiny = partial(translate_alone, Source(System("transformer"), TINY, comparison.conditions), ([[]], 2))
    with ExitStack() as stack:
        for name, source in sources.items():
            engines[name] = stack.enter_context(closing(EngineProcess(partial(FairseqEngine, source), start)))
        for shape in comparison.shapes:
            piece = random_piece(shape, comparison.padding, dictionary)
            pieces = math.ceil(comparison.sentences / shape.sentences)
            yield from compare(
                comparison,
                shape,
                [shape.length * shape.sentences] * pieces,
                {name: partial(seconds, engine, piece) for name, engine in engines.items()},
                {name: flops_per_token(comparison, engine.formula, piece) for name, engine in engines.items()},
                {
                    name: partial(peak, partial(translate_alone, source, piece), tiny, device)
                    for name, source in sources.items()
                },
            )


def seconds(engine: EngineProcess, piece: Piece, number: int) -> float:
    return engine.translate(*piece)[1]


def translate_alone(source: Source, piece: Piece) -> None:
    FairseqEngine(source).translate(*piece)


def flops_per_token(comparison: Comparison, formula: flops.TranslationModel | None, piece: Piece) -> float | None:
    """Return the FLOPs per target token; the encoder reads a sentence once, every beam decodes it step by step."""
    if formula is None:
        return None
    (sources, length), beam = piece, comparison.conditions.beam
    source = max(map(len, sources)) + 1
    without = formula.decoder(source, 0)  # each position is paired only with itself and earlier ones
    steps = sum((formula.decoder(source, each) - without) / each for each in range(1, length + 1))
    keys_and_values = source * formula.keys_and_values
    if not (formula.beams_share and comparison.conditions.device == "cpu"):
        keys_and_values *= beam
    return (formula.encoder(source) + keys_and_values + beam * steps) / length
