"""Training: fairseq's own step on random sentences, by one process and by several together."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from fairseq.distributed.utils import distributed_init
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer

from resmlp_mt.common.matmul import matmul
from resmlp_mt.data.binarized import made_up_dictionary
from resmlp_mt.lab.analysis import flops
from resmlp_mt.lab.benchmarks.engines import new_processes, operations, peak
from resmlp_mt.lab.benchmarks.measuring import (
    Measurement,
    Times,
    Workload,
    compare,
    per_second,
    speed_ratio,
    timed,
    turns,
)
from resmlp_mt.lab.benchmarks.systems import TINY, Comparison, Shape, System, formula_of
from resmlp_mt.lab.models import build_model

STEPS = 3  # of several processes, that are timed in a row


class Training:
    """A system in training by fairseq's Trainer, with further arguments: forward and backward pass, Adam's step."""

    def __init__(self, system: System, comparison: Comparison, arguments: Sequence[str] = ()):
        comparison.conditions.apply()
        self.config = system.config(comparison.size, comparison.conditions, arguments)
        self.dictionary, self._padding = made_up_dictionary(comparison.size.vocabulary), comparison.padding
        task = TranslationTask(self.config.task, self.dictionary, self.dictionary)
        model, criterion = build_model(self.config, task), task.build_criterion(self.config.criterion)
        self.trainer, self._library = Trainer(self.config, task, model, criterion), system.library

    def batch(self, shape: Shape) -> dict[str, Any]:
        return shape.random_batch(self._padding, self.dictionary)

    def step(self, batch: dict[str, Any], _: int = 0) -> None:
        """Train on a batch."""
        with matmul(self._library):
            self.trainer.train_step([batch])

    def flops_per_token(self, shape: Shape, tokens: int) -> float | None:
        """FLOPs a real target token of a step; padding costs what tokens do."""
        formula = formula_of(self.config, len(self.dictionary))
        if formula is None:
            return None
        return flops.TRAINING * shape.sentences * formula.forward(shape.length, shape.length) / tokens


def train(comparison: Comparison) -> Iterator[Measurement]:
    """Time the training of every system."""
    trainings = {system.name: Training(system, comparison) for system in comparison.systems}
    rehearsal = partial(two_steps, replace(comparison, size=TINY), System("transformer"), Shape(2, 1))
    device = comparison.conditions.device

    def profile(name: str) -> dict[str, float]:
        return operations(partial(trainings[name].step, batch), device)

    for shape in comparison.shapes:
        peaks = {}
        if comparison.memory:
            for system in comparison.systems:
                peaks[system.name] = peak(partial(two_steps, comparison, system, shape), rehearsal, device)
        batch = trainings[comparison.baseline].batch(shape)
        tokens = batch["ntokens"]
        yield from compare(
            comparison,
            Workload(str(shape), shape.length, shape.sentences, [tokens]),
            {name: timed(partial(training.step, batch)) for name, training in trainings.items()},
            {name: training.flops_per_token(shape, tokens) for name, training in trainings.items()},
            peaks,
            profile,
        )


def two_steps(comparison: Comparison, system: System, shape: Shape) -> None:
    """The second step has the optimizer's state beside the activations from its beginning."""
    training = Training(system, comparison)
    batch = training.batch(shape)
    for _ in range(2):
        training.step(batch)


def train_together(comparison: Comparison, processes: int) -> Iterator[Measurement]:
    """Time the training of every system by one process and by several, each with batches of its own.

    Every round starts processes afresh. The ratio is that of several to one, of the same system; as many processes as
    there are at best.
    """
    for shape in comparison.shapes:
        tokens = shape.random_batch(comparison.padding, made_up_dictionary(comparison.size.vocabulary))["ntokens"]
        for system in comparison.systems:
            # seconds a batch: several processes do several batches at a time
            seconds: dict[int, Times] = {1: [], processes: []}
            for _, _, count in turns(list(seconds), 1, comparison.rounds):
                seconds[count].append([time_steps(comparison, system, shape, count) / count])
            for count, times in seconds.items():
                yield Measurement(
                    f"{system.name}, {count} process{'es' if count > 1 else ''}",
                    str(shape),
                    shape.length,
                    shape.sentences,
                    tokens,
                    per_second(STEPS * tokens, times),
                    speed_ratio(times, seconds[1]),
                    flop_ratio=float(count),
                    seconds=times,
                )


def time_steps(comparison: Comparison, system: System, shape: Shape, processes: int) -> float:
    """Seconds that so many processes take for their steps together."""
    with tempfile.TemporaryDirectory() as folder, new_processes(processes) as executor:
        meeting = f"file://{folder}/meeting"
        ranks = [
            executor.submit(_steps, comparison, system, shape, processes, rank, meeting) for rank in range(processes)
        ]
        return max(rank.result() for rank in ranks)


def _steps(comparison: Comparison, system: System, shape: Shape, processes: int, rank: int, meeting: str) -> float:
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
    step = timed(partial(training.step, training.batch(shape)))
    for number in range(max(1, comparison.warmup)):  # the first step also connects the processes
        step(number)
    return sum(map(step, range(STEPS)))
