"""A table as a small file: what all of its rows share, and what each has of its own.

The file is YAML, read as fairseq reads its own (omegaconf, with ``${interpolation}``). ``base:`` names another file
whose settings hold where this one is silent.
"""

import io
import re
import shlex
from collections import Counter
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from resmlp_mt.corpora.languages import check_code
from resmlp_mt.errors import UserError
from resmlp_mt.files import PathLike, read_lines

_SHARED = """
batch-size batch-size-valid max-sentences max-sentences-valid max-tokens max-tokens-valid required-batch-size-multiple
update-freq update-epoch-batch-itr seed train-subset valid-subset skip-invalid-size-inputs-valid-test source-lang
target-lang user-dir max-epoch max-update patience stop-min-lr stop-time-hours keep-last-epochs no-epoch-checkpoints
no-save restore-file save-dir save-interval validate-interval disable-validation log-file log-format log-interval
"""
ONE_FOR_ALL = frozenset(f"--{name}" for name in _SHARED.split())
"""Options of fairseq-train that are not a row's to choose: data, batches, budget, and what the table is read from."""

NUMBERS = ("max_epoch", "updates_per_epoch", "average", "seed")
MOST = 10**9
"""The largest number that a recipe may have."""

LARGEST = 1 << 20
"""Bytes of a recipe."""

OPENING = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
CLOSING = yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken
DEEPEST = 9
"""Levels of a recipe; it has two."""

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
        seeds: if there are any, every row is trained once with each of them, and ``seed`` is not used
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

    @property
    def updates(self) -> int:
        """The budget in updates."""
        return self.max_epoch * self.updates_per_epoch

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
        return [
            *("--source-lang", source, "--target-lang", target, *self.batches),
            *("--max-epoch", str(self.max_epoch), "--seed", str(seed), "--num-workers", "0"),
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
        if each.default is NO_DEFAULT and name not in settings:
            raise UserError(f"{path}: {name} is missing")
    for name in NUMBERS:
        if name in settings:
            _check_number(path, name, settings[name])
    for name in "title", "baseline", "languages", "reference", "data", "subset":
        if name in settings and not (
            isinstance(settings[name], str) and settings[name] and settings[name].isprintable()
        ):
            raise UserError(f"{path}: {name} is {settings[name]!r}: give text")
    for name in "batches", "options", "search":
        if name in settings:
            settings[name] = _words(path, name, settings[name])
    settings["rows"] = _rows(path, settings["rows"])
    if "seeds" in settings:
        settings["seeds"] = _seeds(path, settings["seeds"])
    recipe = Recipe(**settings)
    _check(path, recipe)
    return recipe


def _load(path: Path) -> dict[str, Any]:
    settings = _read(path)
    try:
        if "base" in settings:
            if not isinstance(settings["base"], str):
                raise UserError(f"{path}: base is {settings['base']!r}: give the name of a file")
            settings = DictConfig(OmegaConf.merge(_read(path.parent / settings["base"]), settings))
        factors = [settings.get(name) for name in ("max_epoch", "updates_per_epoch")]
        if None not in factors:
            for name, number in zip(("max_epoch", "updates_per_epoch"), factors, strict=True):
                _check_number(path, name, number)
            settings["updates"] = factors[0] * factors[1]
        values: Any = OmegaConf.to_container(settings, resolve=True)
    except (OmegaConfBaseException, TypeError) as error:
        raise UserError(f"{path}: not read: {_one_line(error)}") from error
    return {str(name): value for name, value in values.items() if name not in ("base", "updates") and value != "???"}


def _read(path: Path) -> DictConfig:
    if path.exists() and not (path.is_file() and path.stat().st_size < LARGEST):
        raise UserError(f"{path}: no file of settings: see examples/ablations")
    text = "\n".join(read_lines(path))
    try:
        depth = 0
        for token in yaml.scan(text):
            if isinstance(token, yaml.AliasToken):  # a few lines of aliases can stand for billions of values
                raise UserError(f"{path}: aliases (*name) are not taken: give the setting itself, or ${{name}}")
            depth += isinstance(token, OPENING) - isinstance(token, CLOSING)
            if depth > DEEPEST:
                raise UserError(f"{path}: nested too deeply: see examples/ablations")
        settings = OmegaConf.load(io.StringIO(text))
    except UserError:
        raise
    except (OmegaConfBaseException, OSError, ValueError, TypeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: not read: {_one_line(error)}") from error
    if not isinstance(settings, DictConfig):
        raise UserError(f"{path}: not a mapping of settings: see examples/ablations")
    return settings


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _check_number(path: PathLike, name: str, number: Any) -> None:
    if type(number) is not int or not 1 <= number <= MOST:
        told = number if type(number) in (int, float) and abs(number) < MOST else repr(number)[:40]
        raise UserError(f"{path}: {name} is {told}: give a whole number from 1 to {MOST:,}")


def _seeds(path: PathLike, seeds: Any) -> tuple[int, ...]:
    if not isinstance(seeds, list) or not seeds:
        raise UserError(f"{path}: seeds: give a list of whole numbers, such as [1, 2, 3]")
    for seed in seeds:
        _check_number(path, "one of seeds", seed)
    seed, times = Counter(seeds).most_common(1)[0]
    if times > 1:
        raise UserError(f"{path}: seeds: {seed} is there {times} times: give each seed once")
    return tuple(seeds)


def _words(path: PathLike, name: str, text: Any) -> list[str]:
    """The words of options, as a shell has them."""
    if text is None:
        return []
    if not isinstance(text, str):
        raise UserError(f"{path}: {name}: {text!r}: give options as text")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"{path}: {name}: {error}: {text}") from error
    if not all(map(str.isprintable, words)):
        raise UserError(f"{path}: {name}: {text!r}: give printable characters alone")
    return words


def _rows(path: PathLike, rows: Any) -> dict[str, list[str]]:
    if not isinstance(rows, dict) or not rows:
        raise UserError(f"{path}: rows: give at least one, as name: options")
    for name in rows:
        if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]{,99}", name):
            raise UserError(f"{path}: rows: {name!r}: a row is also a folder: name it by letters, digits and . _ + -")
        if TABLE_FILES.fullmatch(name):
            raise UserError(f"{path}: rows: {name}: a file of the table has the name: choose another")
    return {name: _words(path, f"rows: {name}", options) for name, options in rows.items()}


def _check(path: PathLike, recipe: Recipe) -> None:
    if recipe.baseline not in recipe.rows:
        raise UserError(f"{path}: baseline: {recipe.baseline}: no such row; there are: {', '.join(recipe.rows)}")
    if not re.fullmatch(r"\w+-\w+", recipe.languages):
        raise UserError(f"{path}: languages: {recipe.languages}: give source-target, such as en-de")
    check_code(recipe.langs[1], f"{path}: languages:")
    if not re.fullmatch(r"\w[\w.-]{,99}", recipe.subset):  # is part of a file's name
        raise UserError(f"{path}: subset: {recipe.subset}: give a name as fairseq has it, such as test")
    if recipe.average > recipe.max_epoch:
        raise UserError(f"{path}: average is {recipe.average}, but there are only {recipe.max_epoch} epochs")
    own = {"options": recipe.options, **{f"rows: {name}": options for name, options in recipe.rows.items()}}
    for name, options in own.items():
        for word in options:
            if word.partition("=")[0] in ONE_FOR_ALL:
                raise UserError(f"{path}: {name}: {word}: one for all rows, and not set here (see max_epoch, batches)")
