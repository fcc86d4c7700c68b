"""What all trainings of a table or a study have in common: a YAML file, read by OmegaConf as in fairseq.

A dataclass checks it. ``base:`` names another file for the settings that this one does not give, ``${interpolation}``
another setting.
"""

import contextlib
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml  # type: ignore[import-untyped]
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import read_lines
from resmlp_mt.data.binarized import lengths
from resmlp_mt.data.languages import check_code
from resmlp_mt.score.detokenize import check_tokenization

MOST = 10**9  # the largest number that a file of settings may have

_SHARED = """
batch-size batch-size-valid max-sentences max-sentences-valid max-tokens max-tokens-valid required-batch-size-multiple
update-freq update-epoch-batch-itr seed train-subset valid-subset skip-invalid-size-inputs-valid-test source-lang
target-lang user-dir max-epoch max-update patience stop-min-lr stop-time-hours keep-last-epochs no-epoch-checkpoints
no-save no-save-optimizer-state restore-file save-dir save-interval validate-interval disable-validation
reset-dataloader reset-lr-scheduler reset-meters reset-optimizer max-valid-steps nval log-file log-format log-interval
validate-interval-updates save-interval-updates keep-interval-updates
"""
SHARED_OPTIONS = frozenset(["-s", "-t", *(f"--{name}" for name in _SHARED.split())])
"""Options of fairseq-train that a single training must not choose: data, batches, budget, how it is saved and resumed,
and what its log must have."""


@dataclass
class SharedSettings:
    """What all trainings of a file have in common."""

    title: str = MISSING  # of the table or study
    languages: str = MISSING  # source and target, such as en-de
    reference: str = MISSING  # running text of a target side, in the folder of the data
    batches: str = MISSING  # options of fairseq-train that make the batches
    options: str = ""  # of fairseq-train for every training
    data: str = "data-bin"  # the binarized data, in the folder of the data
    seed: int = 1  # of every training
    search: str = ""  # options of fairseq-generate; "": nothing is translated

    @property
    def langs(self) -> tuple[str, str]:
        source, target = self.languages.split("-")
        return source, target

    def target_text(self, reference: Path, data: Path, subset: str) -> tuple[list[str], np.ndarray]:
        """Return a subset's target lines, which must be running text, and the number of subwords of each."""
        if not reference.is_file():
            raise UserError(f"{reference}: no such file: prepare the data first, or give its folder as --work")
        lines, sizes = list(read_lines(reference)), lengths(data, subset, self.langs)[1]
        if len(lines) != len(sizes) or not any(lines):
            raise UserError(f"{reference}: not the text of {data}'s {subset} set, which has {len(sizes):,} sentences")
        check_tokenization(lines, False, str(reference))
        return lines, sizes


Settings = TypeVar("Settings", bound=SharedSettings)


def read_settings(path: Path, kind: type[Settings], **also: str) -> Settings:
    """Return the settings of a file and its bases as a dataclass; ``also``: more values for ``${interpolation}``."""
    with reading(path):
        given: Any = OmegaConf.to_container(OmegaConf.merge(_over_base(path, []), also), resolve=True)
    settings = checked(path, kind, {name: value for name, value in given.items() if name not in ("base", *also)})
    if not re.fullmatch(r"\w+-\w+", settings.languages):
        raise UserError(f"{path}: languages: {settings.languages}: give source-target, such as en-de")
    check_code(settings.langs[1], f"{path}: languages:")
    for name in "batches", "search":
        with reading(path, f"{name}: "):
            shlex.split(getattr(settings, name))
    return settings


Checked = TypeVar("Checked")


def checked(path: Path, kind: type[Checked], given: Any, part: str = "") -> Checked:
    """Return the settings ``given`` for a file, or a part of it, as a dataclass; whole numbers must be 1 to MOST."""
    with reading(path, part):
        values: Any = OmegaConf.to_container(OmegaConf.merge(OmegaConf.structured(kind), given), throw_on_missing=True)
    for name, value in values.items():
        if value in ([], {}) and name in ("families", "pairs", "rounds", "sizes"):
            raise UserError(f"{path}: {part}{name}: is empty")
        numbers = value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]
        for number in numbers:
            if type(number) is int and not 1 <= number <= MOST:
                raise UserError(f"{path}: {part}{name}: {number}: give a whole number from 1 to {MOST:,}")
    return kind(**values)


@contextlib.contextmanager
def reading(path: Path, part: str = "") -> Iterator[None]:
    """Turn errors of a settings file, or of a part such as ``tune: ``, into a UserError of one line."""
    try:
        yield
    except UserError:
        raise
    except (OmegaConfBaseException, OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError,
            yaml.YAMLError) as error:  # fmt: skip
        missing = "unknown name " if type(error) is KeyError else ""  # OmegaConf's own errors say more
        raise UserError(f"{path}: {part}not read: {missing}{' '.join(str(error).split())}") from error


def _over_base(path: Path, above: list[Path]) -> DictConfig:
    """Return a file's settings, merged over those of its bases; ``above``: the files that it is a base of."""
    settings = OmegaConf.load(path)
    if not isinstance(settings, DictConfig):
        raise UserError(f"{path}: not a mapping of settings: see examples/ablations")
    if "base" not in settings:
        return settings
    base, above = path.parent / str(settings["base"]), [*above, path.resolve()]
    if base.resolve() in above:
        raise UserError(f"{path}: base: {settings['base']} has this file as a base: name another")
    return DictConfig(OmegaConf.merge(_over_base(base, above), settings))


def check_folder_names(path: Path, setting: str, names: Iterable[str]) -> None:
    for name in names:
        if not re.fullmatch(r"\w[\w.+-]{,99}", name):
            raise UserError(f"{path}: {setting}: {name!r}: is also a folder: name it by letters, digits and . _ + -")


def check_own(path: Path, name: str, options: str | None) -> None:
    """Refuse options that a single training must not choose (SHARED_OPTIONS)."""
    with reading(path, f"{name}: "):
        words = shlex.split(options or "")
    for word in words:
        if word.partition("=")[0] in SHARED_OPTIONS:
            raise UserError(f"{path}: {name}: {word}: is the same for every training (batches:, seed:, max_epoch:)")
