"""What a finished cell's log tells: the validation loss over the compute that was spent."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.scaling.cells import CellFolder
from resmlp_mt.lab.scaling.grid import Cell, Parameters
from resmlp_mt.lab.trainings.log import Curves, read_curves

STOPPED, BUDGET, DIVERGED = "stopped falling", "budget", "diverged"


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
    epochs = {updates: told["update"] for updates, told in curves.training.items() if "update" in told}
    last = max(epochs, default=1)
    tokens_an_update = cell.plan.tokens * epochs.get(last, 0) / last
    bits = {updates: told.get("nll_loss", told.get("loss")) for updates, told in curves.validation.items()}
    losses = {updates: loss * math.log(2) for updates, loss in bits.items() if loss is not None}
    diverged = cell.ended_by_itself() or not losses or list(losses.values())[-1] >= math.log(vocabulary)
    end = DIVERGED if diverged else BUDGET if max(losses) >= cell.recipe.updates else STOPPED
    plan = cell.plan
    return Run(
        cell=plan.cell,
        parameters=plan.parameters,
        flops=plan.flops,
        tokens=plan.tokens,
        updates=list(losses),
        seen=[updates * tokens_an_update for updates in losses],
        losses=list(losses.values()),
        processor_seconds=cell.processor_seconds,
        end=end,
    )
