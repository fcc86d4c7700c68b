"""A table as a small file: what all of its rows share, and what each has of its own."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import MISSING

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.trainings.settings import (
    SharedSettings,
    check_folder_names,
    check_numbers,
    check_own,
    read_settings,
    words_of,
)

UPDATES = "{updates}"
"""What ``${updates}`` is in options until a row is known."""

TABLE_FILES = re.compile(r"table(\..+)?\.(md|json|png)|training\.png")
"""The names of the table's files, which are beside the folders of its rows."""


@dataclass
class Recipe(SharedSettings):
    """One table; ``reference`` is the text of the subset's target side.

    Attributes:
        baseline: the row that all others are compared with
        rows: name, options of fairseq-train (None: none)
        max_epoch: the budget of a row, in epochs
        updates_per_epoch: batches of an epoch, with which ``${updates}`` is a row's whole budget in updates; checked
        subset: what is translated
        search: options of fairseq-generate
        average: how many of the last epochs' checkpoints are averaged
        seeds: if there are any, every row is trained once with each of them, and ``seed`` is not used
        epochs: the budgets of rows that have another than ``max_epoch``
    """

    baseline: str = MISSING
    rows: dict[str, Any] = MISSING
    max_epoch: int = MISSING
    updates_per_epoch: int = MISSING
    subset: str = "test"
    search: str = "--beam 4"
    average: int = 5
    seeds: list[int] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)

    def epochs_of(self, row: str) -> int:
        """The budget of a row, in epochs."""
        return self.epochs.get(row, self.max_epoch)

    @property
    def budget(self) -> str:
        """The budget of all rows, in words."""
        of = f"{self.max_epoch} epochs of {self.updates_per_epoch} updates for every row"
        others = ", ".join(f"{epochs} for {row}" for row, epochs in self.epochs.items() if epochs != self.max_epoch)
        return f"{of}, but {others}" if others else of

    @property
    def search_options(self) -> list[str]:
        """The options of fairseq-generate."""
        return [*shlex.split(self.search), "--gen-subset", self.subset]

    @property
    def table_files(self) -> tuple[str, str, str, str]:
        """The names of the table as Markdown, as JSON and as a picture, and of the picture of the trainings.

        A table of another subset than ``test`` has its name in theirs, so that one can stand beside the other.
        """
        name = "table" if self.subset == "test" else f"table.{self.subset}"
        return f"{name}.md", f"{name}.json", f"{name}.png", "training.png"

    def training_options(self, row: str, seed: int) -> list[str]:
        """The options of fairseq-train for a row, those apart that name files; later ones win."""
        source, target = self.langs
        words = [
            *("--source-lang", source, "--target-lang", target, *shlex.split(self.batches)),
            *("--max-epoch", str(self.epochs_of(row)), "--seed", str(seed), "--num-workers", "0"),
            *("--update-epoch-batch-itr", "True"),  # broken off and run again, it ends with the same weights
            *("--keep-last-epochs", str(self.average), "--log-format", "json", "--log-interval", "10"),
            *self._settled(row, shlex.split(self.options)),
        ]
        return [*words, *self.own_options(row)]

    def own_options(self, row: str) -> list[str]:
        """A row's own options of fairseq-train."""
        return self._settled(row, shlex.split(self.rows[row] or ""))

    def _settled(self, row: str, words: Sequence[str]) -> list[str]:
        updates = str(self.epochs_of(row) * self.updates_per_epoch)
        return [word.replace(UPDATES, updates) for word in words]


def read_recipe(path: Path) -> Recipe:
    """Read the file of a table."""
    recipe = read_settings(path, Recipe, updates=UPDATES)
    check_folder_names(path, "rows", recipe.rows)
    check_numbers(path, "seeds", recipe.seeds)
    check_numbers(path, "epochs", recipe.epochs.values())
    options = {f"rows: {name}": words for name, words in recipe.rows.items()} | {"options": recipe.options}
    for name, text in options.items():
        check_own(path, name, words_of(path, name, text))
    words_of(path, "search", recipe.search)
    for row in recipe.baseline, *recipe.epochs:
        if row not in recipe.rows:
            raise UserError(f"{path}: {row}: no such row; there are: {', '.join(recipe.rows)}")
    for row in recipe.rows:
        if TABLE_FILES.fullmatch(row):
            raise UserError(f"{path}: rows: {row}: a file of the table has the name: choose another")
    if len(set(recipe.seeds)) < len(recipe.seeds):
        raise UserError(f"{path}: seeds: {recipe.seeds}: give each seed once")
    if not re.fullmatch(r"\w[\w.-]{,99}", recipe.subset):  # is part of a file's name
        raise UserError(f"{path}: subset: {recipe.subset}: give a name as fairseq has it, such as test")
    fewest = min(map(recipe.epochs_of, recipe.rows))
    if recipe.average > fewest:
        raise UserError(f"{path}: average is {recipe.average}, but there are only {fewest} epochs")
    return recipe
