"""A cell in a folder of its own: trained on its sample, its log kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, read_lines
from resmlp_mt.data.sampling import RECORD, sample
from resmlp_mt.lab.ablations.running import TrainingFolder, circumstances, digests
from resmlp_mt.lab.scaling.grid import Plan
from resmlp_mt.lab.scaling.recipe import ScalingRecipe

DIVERGED = "the training has diverged", "FloatingPointError"
"""What is in the log of a training whose numbers are no longer finite: of our models, and of fairseq's."""


@dataclass(frozen=True)
class CellFolder(TrainingFolder):
    """The folder of a cell; its checkpoints go when it is finished: a study needs the log alone.

    Attributes:
        recipe: the study's
        plan: the cell's
    """

    recipe: ScalingRecipe
    plan: Plan

    @property
    def label(self) -> str:
        return self.name

    @property
    def options(self) -> list[str]:
        cell = self.plan.cell
        return self.recipe.training_options(cell.family, cell.size, cell.seed)

    @property
    def finished(self) -> bool:
        return super().finished and not self._checkpoints

    @property
    def diverged(self) -> bool:
        """Whether the training has ended because its numbers were no longer finite."""
        return any(mark in line for line in read_lines(self.log) for mark in DIVERGED)

    def after(self, state: JsonFile, lock: IO[str], stop: Event) -> None:
        for path in self._checkpoints:
            path.unlink()

    def _train(self, state: JsonFile, lock: IO[str], stop: Event, about: dict[str, str]) -> None:
        try:
            super()._train(state, lock, stop, about)
        except UserError:
            if not self.diverged:
                raise
            state.values["trained"] = circumstances(about)
            state.save()

    @property
    def _checkpoints(self) -> list[Path]:
        return list(self.folder.glob("checkpoint*.pt"))


def sampled(recipe: ScalingRecipe, data: Path, out: Path) -> dict[int, Path]:
    """The data-bin of each amount of data, OUT/data/PAIRS, made if it is not there.

    Args:
        data: the whole data-bin
        out: the folder for all results

    Raises:
        UserError: a folder there was made of other data, or cannot be written
    """
    made_of = {"data": digests(data), "seed": recipe.sample_seed}
    folders = {}
    for pairs in recipe.pairs:
        folder = folders[pairs] = out / "data" / str(pairs)
        if not folder.exists():
            sample(data, folder, recipe.langs, pairs, recipe.sample_seed, made_of)
        elif JsonFile(folder / RECORD).values != made_of:
            raise UserError(f"{folder}: a sample of other data: remove it, or choose another --out")
    return folders


def cell_folders(recipe: ScalingRecipe, plans: Sequence[Plan], out: Path, samples: dict[int, Path]) -> list[CellFolder]:
    """The folders of a study, OUT/cells/NAME, in the order of the plans."""
    sums = {pairs: digests(folder) for pairs, folder in samples.items()}
    return [
        CellFolder(
            plan.cell.name,
            plan.cell.seed,
            samples[plan.cell.pairs],
            sums[plan.cell.pairs],
            out / "cells" / plan.cell.name,
            recipe,
            plan,
        )
        for plan in plans
    ]
