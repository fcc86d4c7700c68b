"""Training: fairseq's own step on random sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer

from resmlp_mt.common.matmul import matmul
from resmlp_mt.data.dictionaries import made_up_dictionary
from resmlp_mt.lab.analysis import flops
from resmlp_mt.lab.benchmarks import memory
from resmlp_mt.lab.benchmarks.batches import Shape, random_batch
from resmlp_mt.lab.benchmarks.comparison import Comparison, Measurement, Workload, compare, counted
from resmlp_mt.lab.benchmarks.systems import TINY, Conditions, Size, System
from resmlp_mt.lab.models import build_model


class Training:
    """A system in training by fairseq's Trainer: forward and backward pass, Adam's step.

    Args:
        arguments: further ones of fairseq-train
    """

    def __init__(self, system: System, size: Size, conditions: Conditions, arguments: Sequence[str] = ()):
        self.config = system.config(size, conditions, arguments)
        self.dictionary = made_up_dictionary(size.vocabulary)
        task = TranslationTask(self.config.task, self.dictionary, self.dictionary)
        model, criterion = build_model(self.config, task), task.build_criterion(self.config.criterion)
        self.trainer = Trainer(self.config, task, model, criterion)
        self.vocabulary, self.library = size.vocabulary, system.library

    def step(self, batch: dict[str, Any], _: int = 0) -> None:
        """Train on a batch."""
        with matmul(self.library):
            self.trainer.train_step([batch])

    def flops_per_token(self, shape: Shape, tokens: int) -> float | None:
        """FLOPs a real target token of a step; padding costs what tokens do."""
        formula = counted(self.config, self.vocabulary)
        if formula is None:
            return None
        return flops.TRAINING * shape.sentences * formula.forward(shape.length, shape.length) / tokens


def train(comparison: Comparison, shapes: Sequence[Shape]) -> Iterator[Measurement]:
    """Time the training of every system on batches of these shapes."""
    comparison.conditions.apply()
    trainings = {each.name: Training(each, comparison.size, comparison.conditions) for each in comparison.systems}
    rehearsal = partial(two_steps, replace(comparison, size=TINY), System("transformer"), Shape(2, 1))
    for shape in shapes:
        peaks = {}
        if comparison.memory:
            for system in comparison.systems:
                work = partial(two_steps, comparison, system, shape)
                peaks[system.name] = memory.peak(work, rehearsal, comparison.conditions)
        batch = random_batch(shape, comparison.padding, made_up_dictionary(comparison.size.vocabulary))
        tokens = batch["ntokens"]
        yield from compare(
            comparison,
            Workload(str(shape), shape.length, shape.sentences, tokens, 1, tokens),
            {name: partial(training.step, batch) for name, training in trainings.items()},
            {name: training.flops_per_token(shape, tokens) for name, training in trainings.items()},
            peaks,
        )


def two_steps(comparison: Comparison, system: System, shape: Shape) -> None:
    """The second step has the optimizer's state beside the activations from its beginning."""
    training = Training(system, comparison.size, comparison.conditions)
    batch = random_batch(shape, comparison.padding, training.dictionary)
    for _ in range(2):
        training.step(batch)
