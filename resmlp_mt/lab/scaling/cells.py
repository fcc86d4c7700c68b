"""A cell in a folder of its own: trained on its sample, its log kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, read_lines
from resmlp_mt.data.binarized import RECORD, sample
from resmlp_mt.lab.scaling.grid import Plan
from resmlp_mt.lab.scaling.recipe import ScalingRecipe
from resmlp_mt.lab.trainings.queue import TrainingFolder, digests

DIVERGED = "the training has diverged", "FloatingPointError"
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
        return any(mark in line for line in read_lines(self.log) for mark in DIVERGED)

    def after(self, held: IO[str], stop: Event) -> None:
        for path in self._checkpoints:
            path.unlink()

    @property
    def _checkpoints(self) -> list[Path]:
        return list(self.folder.glob("checkpoint*.pt"))


def cell_folders(recipe: ScalingRecipe, plans: Sequence[Plan], out: Path, data: Path) -> list[CellFolder]:
    """The folders of a study, OUT/cells/NAME, in the order of the plans; samples of the data, OUT/data/PAIRS, are made.

    Args:
        data: the whole data-bin
    """
    made_of = {"data": digests(data), "seed": recipe.sample_seed}
    samples, sums = {}, {}
    for pairs in recipe.pairs:
        folder = samples[pairs] = out / "data" / str(pairs)
        if not folder.exists():
            sample(data, folder, recipe.langs, pairs, recipe.sample_seed, made_of)
        elif JsonFile(folder / RECORD).values != made_of:
            raise UserError(f"{folder}: a sample of other data: remove it, or choose another --out")
        sums[pairs] = digests(folder)
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
