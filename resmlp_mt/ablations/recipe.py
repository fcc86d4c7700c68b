"""A table as a small file: what all of its rows share, and what each has of its own.

The file is YAML, read as fairseq reads its own (omegaconf, with ``${interpolation}``). ``base:`` names another file
whose settings hold where this one is silent.
"""

import re
import shlex
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from resmlp_mt.errors import UserError
from resmlp_mt.files import PathLike

_SHARED = """
batch-size batch-size-valid max-sentences max-sentences-valid max-tokens max-tokens-valid required-batch-size-multiple
update-freq update-epoch-batch-itr seed train-subset valid-subset skip-invalid-size-inputs-valid-test source-lang
target-lang user-dir max-epoch max-update patience stop-min-lr stop-time-hours keep-last-epochs no-epoch-checkpoints
no-save restore-file save-dir save-interval validate-interval disable-validation log-file log-format log-interval
"""
ONE_FOR_ALL = frozenset(f"--{name}" for name in _SHARED.split())
"""Options of fairseq-train that are not a row's to choose: data, batches, budget, and what the table is read from."""


@dataclass(frozen=True)
class Recipe:
    """One table.

    Attributes:
        title: the table's
        against: the row that all others are compared with
        rows: name, options of fairseq-train
        max_epoch: the budget of every row, in epochs
        updates_per_epoch: batches of an epoch, with which ``${updates}`` is the whole budget in updates; checked
        batches: options of fairseq-train that make the batches
        languages: source and target, ``en-de``
        reference: running text of the subset's target side, in the folder of the data
        options: of fairseq-train for every row
        data: the binarized data, in the folder of the data
        subset: what is translated
        search: options of fairseq-generate
        average: how many of the last epochs' checkpoints are averaged
        seed: of every training
    """

    title: str
    against: str
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

    @property
    def updates(self) -> int:
        """The budget in updates."""
        return self.max_epoch * self.updates_per_epoch

    @property
    def langs(self) -> tuple[str, str]:
        """Source and target language."""
        source, _, target = self.languages.partition("-")
        return source, target

    def training_options(self, row: str) -> list[str]:
        """The options of fairseq-train for a row, those apart that name files; later ones win."""
        source, target = self.langs
        return [
            *("--source-lang", source, "--target-lang", target, *self.batches),
            *("--max-epoch", str(self.max_epoch), "--seed", str(self.seed), "--num-workers", "0"),
            *("--update-epoch-batch-itr", "True"),  # broken off and run again, it ends with the same weights
            *("--keep-last-epochs", str(self.average), "--log-format", "json", "--log-interval", "10"),
            *self.options,
            *self.rows[row],
        ]


def read_recipe(path: PathLike) -> Recipe:
    """Read the file of a table.

    Raises:
        UserError: it cannot be read, lacks a setting or has one that it should not, with its name
    """
    settings = _load(Path(path))
    known = {each.name: each for each in fields(Recipe)}
    for name in settings:
        if name not in known:
            raise UserError(f"{path}: {name}: no such setting; there are: base, {', '.join(known)}")
    for name, each in known.items():
        if each.default is MISSING and name not in settings:
            raise UserError(f"{path}: {name} is missing")
    for name, kind in ("max_epoch", int), ("updates_per_epoch", int), ("average", int), ("seed", int):
        if name in settings and (type(settings[name]) is not kind or settings[name] < 1):
            raise UserError(f"{path}: {name} is {settings[name]!r}: give a whole number from 1")
    for name in "title", "against", "languages", "reference", "data", "subset":
        if name in settings and not (isinstance(settings[name], str) and settings[name]):
            raise UserError(f"{path}: {name} is {settings[name]!r}: give text")
    for name in "batches", "options", "search":
        if name in settings:
            settings[name] = _words(path, name, settings[name])
    settings["rows"] = _rows(path, settings["rows"])
    recipe = Recipe(**settings)
    _check(path, recipe)
    return recipe


def _load(path: Path) -> dict[str, Any]:
    try:
        settings = _read(path)
        if "base" in settings:
            base = _read(path.parent / str(settings["base"]))
            settings = DictConfig(OmegaConf.merge(base, settings))
        if "max_epoch" in settings and "updates_per_epoch" in settings:
            settings["updates"] = settings["max_epoch"] * settings["updates_per_epoch"]
        values: Any = OmegaConf.to_container(settings, resolve=True)
    except OSError as error:
        raise UserError(f"{error.filename or path}: cannot be read: {error.strerror or error}") from error
    except (OmegaConfBaseException, YAMLError, TypeError) as error:
        raise UserError(f"{path}: not read: {' '.join(str(error).split())}") from error
    return {str(name): value for name, value in values.items() if name not in ("base", "updates")}


def _read(path: Path) -> DictConfig:
    settings = OmegaConf.load(path)
    if not isinstance(settings, DictConfig):
        raise UserError(f"{path}: not a mapping of settings: see examples/ablations")
    return settings


def _words(path: PathLike, name: str, text: Any) -> list[str]:
    """The words of options, as a shell has them."""
    if text is None:
        return []
    if not isinstance(text, str):
        raise UserError(f"{path}: {name}: {text!r}: give options as text")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(f"{path}: {name}: {error}: {text}") from error


def _rows(path: PathLike, rows: Any) -> dict[str, list[str]]:
    if not isinstance(rows, dict) or not rows:
        raise UserError(f"{path}: rows: give at least one, as name: options")
    for name in rows:
        if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]*", name):
            raise UserError(f"{path}: rows: {name!r}: a row is also a folder: name it by letters, digits and . _ + -")
    return {name: _words(path, f"rows: {name}", options) for name, options in rows.items()}


def _check(path: PathLike, recipe: Recipe) -> None:
    if recipe.against not in recipe.rows:
        raise UserError(f"{path}: against: {recipe.against}: no such row; there are: {', '.join(recipe.rows)}")
    if not re.fullmatch(r"\w+-\w+", recipe.languages):
        raise UserError(f"{path}: languages: {recipe.languages}: give source-target, such as en-de")
    if recipe.average > recipe.max_epoch:
        raise UserError(f"{path}: average is {recipe.average}, but there are only {recipe.max_epoch} epochs")
    own = {"options": recipe.options, **{f"rows: {name}": options for name, options in recipe.rows.items()}}
    for name, options in own.items():
        for word in options:
            if word.partition("=")[0] in ONE_FOR_ALL:
                raise UserError(f"{path}: {name}: {word}: one for all rows, and not set here (see max_epoch, batches)")
