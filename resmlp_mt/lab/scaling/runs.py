"""A cell in a folder of its own, trained on its sample, and what its log tells: the loss over the compute spent."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, read_lines
from resmlp_mt.data.binarized import RECORD, sample
from resmlp_mt.lab.scaling.grid import Cell, Parameters, Plan
from resmlp_mt.lab.scaling.recipe import ScalingRecipe
from resmlp_mt.lab.trainings.log import Curves, read_curves
from resmlp_mt.lab.trainings.queue import TrainingFolder, digests

STOPPED, BUDGET, DIVERGED = "stopped falling", "budget", "diverged"

NOT_FINITE = "the training has diverged", "FloatingPointError"
"""What is in the log of a training whose numbers are no longer finite: of our models, and of fairseq's."""


@dataclass(frozen=True)
class CellFolder(TrainingFolder):
    """The folder of a cell; its checkpoints go when it is finished: a study needs the log alone."""

    recipe: ScalingRecipe
    plan: Plan

    @property
    def options(self) -> list[str]:
        cell = self.plan.cell
        return self.recipe.training_options(cell.family, cell.size, cell.seed)

    @property
    def finished(self) -> bool:
        return self.is_trained and not self._checkpoints

    def ended_by_itself(self) -> bool:
        """Whether the training has ended because its numbers were no longer finite."""
        return any(mark in line for line in read_lines(self.log) for mark in NOT_FINITE)

    def after(self, held: IO[str], stop: Event) -> None:
        for path in self._checkpoints:
            path.unlink()

    @property
    def _checkpoints(self) -> list[Path]:
        return list(self.folder.glob("checkpoint*.pt"))


def cell_folders(recipe: ScalingRecipe, plans: Sequence[Plan], out: Path, data: Path) -> list[CellFolder]:
    """The folders of a study, OUT/cells/NAME, in the order of the plans; makes samples of the data, OUT/data/PAIRS."""
    made_of = {"data": digests(data), "seed": recipe.sample_seed}
    samples = {pairs: out / "data" / str(pairs) for pairs in recipe.pairs}
    for pairs, folder in samples.items():
        if not folder.exists():
            sample(data, folder, recipe.langs, pairs, recipe.sample_seed, made_of)
        elif JsonFile(folder / RECORD).values != made_of:
            raise UserError(f"{folder}: a sample of other data: remove it, or choose another --out")
    sums = {pairs: digests(folder) for pairs, folder in samples.items()}
    return [
        CellFolder(
            name=plan.cell.name,
            seed=plan.cell.seed,
            data=samples[plan.cell.pairs],
            sums=sums[plan.cell.pairs],
            folder=out / "cells" / plan.cell.name,
            recipe=recipe,
            plan=plan,
        )
        for plan in plans
    ]


@dataclass(frozen=True)
class Run:
    """A training, from validation to validation.

    Attributes:
        flops: of training on a target token
        tokens: D, target subwords of its sample with ``</s>``
        updates: at each validation
        seen: target subwords trained on until then, those of later epochs too
        losses: cross entropy of the validation set in nats a target subword, not smoothed
        processor_seconds: of the whole training
        end: STOPPED, BUDGET or DIVERGED
    """

    cell: Cell
    parameters: Parameters
    flops: float
    tokens: int
    updates: Sequence[float]
    seen: Sequence[float]
    losses: Sequence[float]
    processor_seconds: float
    end: str

    @property
    def compute(self) -> list[float]:
        """FLOPs until each validation."""
        return [self.flops * seen for seen in self.seen]

    @property
    def best(self) -> float:
        """The lowest loss."""
        return min(self.losses)


def read_run(cell: CellFolder, vocabulary: int) -> Run:
    """Read a finished cell; one that is no better than guessing the entries of the vocabulary has diverged."""
    try:
        curves = read_curves(cell.log)
    except UserError:
        if not cell.ended_by_itself():
            raise
        curves = Curves({}, {})  # before the first update was told
    plan = cell.plan
    epochs = {updates: told["update"] for updates, told in curves.training.items() if "update" in told}
    last = max(epochs, default=1)
    tokens_an_update = plan.tokens * epochs.get(last, 0) / last
    bits = {updates: told.get("nll_loss", told.get("loss")) for updates, told in curves.validation.items()}
    losses = {updates: loss * math.log(2) for updates, loss in bits.items() if loss is not None}
    diverged = cell.ended_by_itself() or not losses or list(losses.values())[-1] >= math.log(vocabulary)
    return Run(
        cell=plan.cell,
        parameters=plan.parameters,
        flops=plan.flops,
        tokens=plan.tokens,
        updates=list(losses),
        seen=[updates * tokens_an_update for updates in losses],
        losses=list(losses.values()),
        processor_seconds=cell.processor_seconds,
        end=DIVERGED if diverged else BUDGET if max(losses) >= cell.recipe.updates else STOPPED,
    )
