"""A table as a small file: what all of its rows share, and what each has of its own."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike
from resmlp_mt.lab.ablations.settings import (
    check_folder_names,
    check_languages,
    check_names,
    check_number,
    check_texts,
    load,
    seeds_of,
    words_of,
)

_SHARED = """
batch-size batch-size-valid max-sentences max-sentences-valid max-tokens max-tokens-valid required-batch-size-multiple
update-freq update-epoch-batch-itr seed train-subset valid-subset skip-invalid-size-inputs-valid-test source-lang
target-lang user-dir max-epoch max-update patience stop-min-lr stop-time-hours keep-last-epochs no-epoch-checkpoints
no-save no-save-optimizer-state restore-file save-dir save-interval validate-interval disable-validation
reset-dataloader reset-lr-scheduler reset-meters reset-optimizer max-valid-steps nval log-file log-format log-interval
"""
ONE_FOR_ALL = frozenset(["-s", "-t", *(f"--{name}" for name in _SHARED.split())])
"""Options of fairseq-train that are not a row's to choose: data, batches, budget, what a training that was broken off
goes on from, and what the table is read from."""

NUMBERS = ("max_epoch", "updates_per_epoch", "average", "seed")
UPDATES = "{updates}"
"""What ``${updates}`` is in options until a row is known."""

CURVES = "training.png"
TABLE_FILES = re.compile(r"table(\..+)?\.(md|json|png)|training\.png")
"""The names of the table's files, which are beside the folders of its rows."""


@dataclass(frozen=True)
class Recipe:
    """One table.

    Attributes:
        title: the table's
        baseline: the row that all others are compared with
        rows: name, options of fairseq-train
        max_epoch: the budget of a row, in epochs
        updates_per_epoch: batches of an epoch, with which ``${updates}`` is a row's whole budget in updates; checked
        batches: options of fairseq-train that make the batches
        languages: source and target, ``en-de``
        reference: running text of the subset's target side, in the folder of the data
        options: of fairseq-train for every row
        data: the binarized data, in the folder of the data
        subset: what is translated
        search: options of fairseq-generate
        average: how many of the last epochs' checkpoints are averaged
        seed: of every training
        seeds: if there are any, every row is trained once with each of them, and ``seed`` is not used
        epochs: the budgets of rows that have another than ``max_epoch``
    """

    title: str
    baseline: str
    rows: dict[str, list[str]]
    max_epoch: int
    updates_per_epoch: int
    batches: list[str]
    languages: str
    reference: str
    options: list[str]
    data: str = "data-bin"
    subset: str = "test"
    search: tuple[str, ...] = ("--beam", "4")
    average: int = 5
    seed: int = 1
    seeds: tuple[int, ...] = ()
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
    def langs(self) -> tuple[str, str]:
        """Source and target language."""
        source, _, target = self.languages.partition("-")
        return source, target

    @property
    def table_files(self) -> tuple[str, str, str, str]:
        """The names of the table as Markdown, as JSON and as a picture, and of the picture of the trainings.

        A table of another subset than ``test`` has its name in theirs, so that one can stand beside the other.
        """
        name = "table" if self.subset == "test" else f"table.{self.subset}"
        return f"{name}.md", f"{name}.json", f"{name}.png", CURVES

    def training_options(self, row: str, seed: int) -> list[str]:
        """The options of fairseq-train for a row, those apart that name files; later ones win."""
        source, target = self.langs
        words = [
            *("--source-lang", source, "--target-lang", target, *self.batches),
            *("--max-epoch", str(self.epochs_of(row)), "--seed", str(seed), "--num-workers", "0"),
            *("--update-epoch-batch-itr", "True"),  # broken off and run again, it ends with the same weights
            *("--keep-last-epochs", str(self.average), "--log-format", "json", "--log-interval", "10"),
            *self.options,
            *self.rows[row],
        ]
        return self._settled(row, words)

    def own_options(self, row: str) -> list[str]:
        """A row's own options of fairseq-train."""
        return self._settled(row, self.rows[row])

    def _settled(self, row: str, words: Sequence[str]) -> list[str]:
        updates = str(self.epochs_of(row) * self.updates_per_epoch)
        return [word.replace(UPDATES, updates) for word in words]


def read_recipe(path: PathLike) -> Recipe:
    """Read the file of a table.

    Raises:
        UserError: it cannot be read, lacks a setting or has one that it should not, with its name
    """
    settings = load(Path(path), updates=UPDATES)
    check_names(path, settings, Recipe)
    for name in NUMBERS:
        if name in settings:
            check_number(path, name, settings[name])
    check_texts(path, settings, ("title", "baseline", "languages", "reference", "data", "subset"))
    for name in "batches", "options", "search":
        if name in settings:
            settings[name] = words_of(path, name, settings[name])
    settings["rows"] = _rows(path, settings["rows"])
    if "epochs" in settings:
        settings["epochs"] = _epochs(path, settings["epochs"])
    if "seeds" in settings:
        settings["seeds"] = seeds_of(path, settings["seeds"])
    recipe = Recipe(**settings)
    _check(path, recipe)
    return recipe


def _rows(path: PathLike, rows: Any) -> dict[str, list[str]]:
    if not isinstance(rows, dict) or not rows:
        raise UserError(f"{path}: rows: give at least one, as name: options")
    check_folder_names(path, "rows", rows)
    for name in rows:
        if TABLE_FILES.fullmatch(name):
            raise UserError(f"{path}: rows: {name}: a file of the table has the name: choose another")
    return {name: words_of(path, f"rows: {name}", options) for name, options in rows.items()}


def _epochs(path: PathLike, epochs: Any) -> dict[str, int]:
    if not isinstance(epochs, dict):
        raise UserError(f"{path}: epochs: give the number of some rows, as name: number")
    for row, number in epochs.items():
        check_number(path, f"epochs: {row}", number)
    return epochs


def _check(path: PathLike, recipe: Recipe) -> None:
    if recipe.baseline not in recipe.rows:
        raise UserError(f"{path}: baseline: {recipe.baseline}: no such row; there are: {', '.join(recipe.rows)}")
    check_languages(path, recipe.languages)
    if not re.fullmatch(r"\w[\w.-]{,99}", recipe.subset):  # is part of a file's name
        raise UserError(f"{path}: subset: {recipe.subset}: give a name as fairseq has it, such as test")
    for row in recipe.epochs:
        if row not in recipe.rows:
            raise UserError(f"{path}: epochs: {row}: no such row; there are: {', '.join(recipe.rows)}")
    fewest = min(map(recipe.epochs_of, recipe.rows))
    if recipe.average > fewest:
        raise UserError(f"{path}: average is {recipe.average}, but there are only {fewest} epochs")
    check_own(path, {"options": recipe.options, **{f"rows: {name}": words for name, words in recipe.rows.items()}})


def check_own(path: PathLike, own: Mapping[str, Sequence[str]], shared: frozenset[str] = ONE_FOR_ALL) -> None:
    """Refuse options that are not a single training's to choose.

    Args:
        own: the words of options, by what the file calls them
        shared: the options that are one for all

    Raises:
        UserError: one of ``shared`` is among them
    """
    for name, options in own.items():
        for word in options:
            if word.partition("=")[0] in shared:
                raise UserError(f"{path}: {name}: {word}: one for all {name.partition(':')[0]}, and not set here")
