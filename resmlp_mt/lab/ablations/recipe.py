"""The recipe of a table, a small file with the common options and those of each row; the folder of each training."""

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import IO, Any

from omegaconf import MISSING

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.trained import average_checkpoints, last_checkpoints, save_checkpoint
from resmlp_mt.lab.trainings import queue, settings
from resmlp_mt.lab.trainings.log import read_log
from resmlp_mt.lab.trainings.translation import TranslatingFolder

UPDATES = "{updates}"  # stands for ``${updates}`` in options until the row is known


@dataclass
class Search:
    """``tune:``, a search for the options of every row; each choice is a string of options, such as ``--lr 1e-3``."""

    trials: int = MISSING  # of each row; the first has the row's options unchanged
    rounds: list[int] = MISSING  # epochs of a trial in each round
    space: dict[str, dict[str, list[str]]] = MISSING  # by row, or for all: the possible options by the name of a choice
    reduction: int = 3  # besides the first trial, one of this many goes on to the next round
    seed: int = 1  # of the random choices


@dataclass
class Recipe(settings.SharedSettings):
    """One table; ``reference`` is the text of the subset's target side.

    ``${updates}`` in options is a row's whole budget in updates. ``seeds``, if given, replace ``seed``.
    """

    baseline: str = MISSING  # the row that all others are compared with
    rows: dict[str, Any] = MISSING  # options of fairseq-train by name (None: none)
    max_epoch: int = MISSING  # the budget of a row
    updates_per_epoch: int = MISSING
    subset: str = "test"  # what is translated
    search: str = "--beam 4"  # options of fairseq-generate
    average: int = 5  # how many of the last epochs' checkpoints are averaged
    seeds: list[int] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)  # of rows that have another budget than max_epoch
    tune: Any = None  # a Search, instead of a table

    def epochs_of(self, row: str) -> int:
        return self.epochs.get(row, self.max_epoch)

    @property
    def budget(self) -> str:
        """The budget of all rows, in words."""
        of = f"{self.max_epoch} epochs of {self.updates_per_epoch} updates for every row"
        others = ", ".join(f"{epochs} for {row}" for row, epochs in self.epochs.items() if epochs != self.max_epoch)
        return f"{of}, but {others}" if others else of

    @property
    def table_files(self) -> tuple[str, str, str, str]:
        """File names: the table as Markdown, JSON and picture, named by the subset; the picture of the trainings."""
        name = "table" if self.subset == "test" else f"table.{self.subset}"
        return f"{name}.md", f"{name}.json", f"{name}.png", "training.png"

    def training_options(self, row: str, seed: int) -> list[str]:
        source, target = self.langs
        return [
            *("--source-lang", source, "--target-lang", target, *shlex.split(self.batches)),
            *("--max-epoch", str(self.epochs_of(row)), "--seed", str(seed), "--num-workers", "0"),
            *("--update-epoch-batch-itr", "True"),  # after an interruption it ends with the same weights
            *("--keep-last-epochs", str(self.average), "--log-format", "json", "--log-interval", "10"),
            *self._words(row, self.options),
            *self.own_options(row),
        ]

    def own_options(self, row: str) -> list[str]:
        return self._words(row, self.rows[row] or "")

    def _words(self, row: str, options: str) -> list[str]:
        return shlex.split(options.replace(UPDATES, str(self.epochs_of(row) * self.updates_per_epoch)))


def read_recipe(path: Path) -> Recipe:
    recipe = settings.read_settings(path, Recipe, updates=UPDATES)
    settings.check_folder_names(path, "rows", recipe.rows)
    settings.check_folder_names(path, "subset", [recipe.subset])  # part of a file's name
    for name, options in recipe.rows.items():
        settings.check_own(path, f"rows: {name}", options)
    settings.check_own(path, "options", recipe.options)
    if recipe.tune is not None:
        recipe.tune = _search(path, recipe)
    for row in recipe.baseline, *recipe.epochs:
        if row not in recipe.rows:
            raise UserError(f"{path}: {row}: no such row; there are: {', '.join(recipe.rows)}")
    if len(set(recipe.seeds)) < len(recipe.seeds):
        raise UserError(f"{path}: seeds: {recipe.seeds}: give each seed once")
    if recipe.average > (fewest := min(map(recipe.epochs_of, recipe.rows))):
        raise UserError(f"{path}: average is {recipe.average}, but there are only {fewest} epochs")
    return recipe


def _search(path: Path, recipe: Recipe) -> Search:
    if recipe.seeds:
        raise UserError(f"{path}: tune: has one seed: give seeds: [] and seed: NUMBER")
    search = settings.checked(path, Search, recipe.tune, "tune: ")
    for row, choices in search.space.items():
        if row not in ("all", *recipe.rows):
            raise UserError(f"{path}: tune: space: {row}: no such row; there are: all, {', '.join(recipe.rows)}")
        for name, options in choices.items():
            for option in options:
                settings.check_own(path, f"tune: space: {row}: {name}", option)
    return search


@dataclass(frozen=True)
class RowFolder(TranslatingFolder):
    """The folder of a row with a seed: a training's files, ``average.pt`` and translations."""

    recipe: Recipe

    @property
    def label(self) -> str:
        return f"{self.name}, seed {self.seed}" if self.recipe.seeds else self.name

    @property
    def options(self) -> list[str]:
        return self.recipe.training_options(self.name, self.seed)

    @property
    def subset(self) -> str:
        return self.recipe.subset

    @property
    def finished(self) -> bool:
        """Whether there is a translation, made with the recipe's options."""
        return self.is_trained and self.is_translated

    def progress(self) -> str:
        epoch = read_log(self.log).check_updates(self.recipe.updates_per_epoch)
        return f"epoch {epoch} of {self.recipe.epochs_of(self.name)}" if epoch else ""

    def after(self, held: IO[str], stop: Event) -> None:
        recipe, average = self.recipe, self.folder / "average.pt"
        paths = last_checkpoints(self.folder, recipe.average, "epoch", upper_bound=recipe.epochs_of(self.name))
        save_checkpoint(average_checkpoints(paths), average)
        self.translate(average, held, stop)


def row_folders(recipe: Recipe, out: Path, data: Path) -> list[RowFolder]:
    """Return the folders of a table, seed by seed: OUT/ROW, or OUT/seedN/ROW if the recipe has ``seeds``."""
    sums = queue.digests(data)
    return [
        RowFolder(name, seed, data, sums, out / (f"seed{seed}" if recipe.seeds else "") / name, recipe)
        for seed in recipe.seeds or [recipe.seed]
        for name in recipe.rows
    ]
