"""A file of settings: YAML as fairseq reads its own (OmegaConf, with ``${interpolation}``), checked by a dataclass.

``base:`` names another file whose settings hold where this one is silent.
"""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import yaml  # type: ignore[import-untyped]
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.languages import check_code

MOST = 10**9  # the largest number that a file may have

_SHARED = """
batch-size batch-size-valid max-sentences max-sentences-valid max-tokens max-tokens-valid required-batch-size-multiple
update-freq update-epoch-batch-itr seed train-subset valid-subset skip-invalid-size-inputs-valid-test source-lang
target-lang user-dir max-epoch max-update patience stop-min-lr stop-time-hours keep-last-epochs no-epoch-checkpoints
no-save no-save-optimizer-state restore-file save-dir save-interval validate-interval disable-validation
reset-dataloader reset-lr-scheduler reset-meters reset-optimizer max-valid-steps nval log-file log-format log-interval
validate-interval-updates save-interval-updates keep-interval-updates
"""
ONE_FOR_ALL = frozenset(["-s", "-t", *(f"--{name}" for name in _SHARED.split())])
"""Options of fairseq-train that are not a single training's to choose: data, batches, budget, what a training that was
broken off goes on from, and what its log is read for."""


@dataclass
class SharedSettings:
    """What all trainings of a file have in common."""

    title: str = MISSING  # of the table or page
    languages: str = MISSING  # source and target, en-de
    reference: str = MISSING  # running text of a target side, in the folder of the data
    batches: str = MISSING  # options of fairseq-train that make the batches
    options: str = ""  # of fairseq-train for every training
    data: str = "data-bin"  # the binarized data, in the folder of the data
    seed: int = 1  # of every training

    @property
    def langs(self) -> tuple[str, str]:
        """Source and target language."""
        source, target = self.languages.split("-")
        return source, target


Settings = TypeVar("Settings", bound=SharedSettings)


def read_settings(path: Path, kind: type[Settings], **also: str) -> Settings:
    """The settings of a file and its bases, interpolated, as a dataclass; ``also`` is what they may name beside."""
    try:
        given: Any = OmegaConf.to_container(OmegaConf.merge(_over_base(path, []), also), resolve=True)
        own = {name: value for name, value in given.items() if name not in ("base", *also)}
        values: Any = OmegaConf.to_container(OmegaConf.merge(OmegaConf.structured(kind), own))
    except (OmegaConfBaseException, OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        raise UserError(f"{path}: not read: {' '.join(str(error).split())}") from error
    for name, value in values.items():
        if value == MISSING:
            raise UserError(f"{path}: {name} is missing")
    settings = kind(**values)
    for each in fields(kind):
        if each.type is int:
            check_numbers(path, each.name, [values[each.name]])
    if not re.fullmatch(r"\w+-\w+", settings.languages):
        raise UserError(f"{path}: languages: {settings.languages}: give source-target, such as en-de")
    check_code(settings.langs[1], f"{path}: languages:")
    words_of(path, "batches", settings.batches)
    return settings


def _over_base(path: Path, above: list[Path]) -> DictConfig:
    """The settings of a file over those of its base, and so on; ``above`` are the files that it is a base of."""
    settings = OmegaConf.load(path)
    if not isinstance(settings, DictConfig):
        raise UserError(f"{path}: not a mapping of settings: see examples/ablations")
    if "base" not in settings:
        return settings
    base, above = path.parent / str(settings["base"]), [*above, path.resolve()]
    if base.resolve() in above:
        raise UserError(f"{path}: base: {settings['base']} has this file as a base: name another")
    return DictConfig(OmegaConf.merge(_over_base(base, above), settings))


def check_numbers(path: Path, name: str, numbers: Iterable[int]) -> None:
    """Refuse numbers below 1."""
    for number in numbers:
        if type(number) is not int or not 1 <= number <= MOST:
            raise UserError(f"{path}: {name}: {number}: give a whole number from 1 to {MOST:,}")


def words_of(path: Path, name: str, text: Any) -> list[str]:
    """The words of options, as a shell has them; none of None."""
    try:
        return shlex.split("" if text is None else str(text))
    except ValueError as error:
        raise UserError(f"{path}: {name}: {error}: {text}") from error


def check_folder_names(path: Path, setting: str, names: Iterable[str]) -> None:
    """Refuse names that cannot also be those of folders."""
    for name in names:
        if not re.fullmatch(r"\w[\w.+-]{,99}", name):
            raise UserError(f"{path}: {setting}: {name!r}: is also a folder: name it by letters, digits and . _ + -")


def check_own(path: Path, name: str, options: Iterable[str]) -> None:
    """Refuse options that are not a single training's to choose."""
    for word in options:
        if word.partition("=")[0] in ONE_FOR_ALL:
            raise UserError(f"{path}: {name}: {word}: one for all {name.partition(':')[0]}, and not set here")
