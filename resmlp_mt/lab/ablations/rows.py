"""A row of a table in a folder of its own, once a seed: trained, averaged, translated."""

import os
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO

from resmlp_mt.common.files import PathLike
from resmlp_mt.fairseq_plugin.trained import average_checkpoints, last_checkpoints, save_checkpoint
from resmlp_mt.lab.ablations.recipe import Recipe
from resmlp_mt.lab.trainings.log import check_updates
from resmlp_mt.lab.trainings.queue import TrainingFolder, digests


@dataclass(frozen=True)
class RowFolder(TrainingFolder):
    """The folder of a row with a seed: beside a training's files, ``average.pt`` and translations."""

    recipe: Recipe

    @property
    def label(self) -> str:
        return f"{self.name}, seed {self.seed}" if self.recipe.seeds else self.name

    @property
    def options(self) -> list[str]:
        return self.recipe.training_options(self.name, self.seed)

    @property
    def translation(self) -> Path:
        """What fairseq-generate printed."""
        return self.folder / f"{self.recipe.subset}.txt"

    @property
    def finished(self) -> bool:
        """Whether there is a translation, made with the recipe's options."""
        search = self.state.values.get("search", {}).get(self.recipe.subset)
        return self.is_trained and search == self.recipe.search_options and self.translation.is_file()

    def progress(self) -> str:
        epoch = check_updates(self.log, self.recipe.updates_per_epoch)
        return f"epoch {epoch} of {self.recipe.epochs_of(self.name)}" if epoch else ""

    def after(self, held: IO[str], stop: Event) -> None:
        recipe, average = self.recipe, self.folder / "average.pt"
        paths = last_checkpoints(self.folder, recipe.average, "epoch", upper_bound=recipe.epochs_of(self.name))
        save_checkpoint(average_checkpoints(paths), average)
        part = self.translation.with_suffix(".txt.part")
        source, target = recipe.langs
        words: list[PathLike] = [
            *("--path", average, "--source-lang", source, "--target-lang", target),
            *("--required-batch-size-multiple", "1", *recipe.search_options),
        ]
        self.generate(words, part, held, stop)
        os.replace(part, self.translation)
        state = self.state
        state.values["search"] = state.values.get("search", {}) | {recipe.subset: recipe.search_options}
        state.save()


def row_folders(recipe: Recipe, out: Path, data: Path) -> list[RowFolder]:
    """The folders of a table: OUT/ROW, or OUT/seedN/ROW where the recipe has ``seeds``; seed by seed."""
    sums = digests(data)
    return [
        RowFolder(name, seed, data, sums, out / (f"seed{seed}" if recipe.seeds else "") / name, recipe)
        for seed in recipe.seeds or [recipe.seed]
        for name in recipe.rows
    ]
