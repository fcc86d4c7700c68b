"""A file of settings, read safely: YAML as fairseq reads its own (omegaconf, with ``${interpolation}``).

``base:`` names another file whose settings hold where this one is silent.
"""

import io
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, read_lines
from resmlp_mt.data.languages import check_code

MOST = 10**9
"""The largest number that a file may have."""

LARGEST = 1 << 20
"""Bytes of a file."""

OPENING = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
CLOSING = yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken
DEEPEST = 9
"""Levels of a file; it has two or three."""


def load(path: Path, **also: str) -> dict[str, Any]:
    """The settings of a file and its bases, interpolated.

    Args:
        also: what settings may name beside one another

    Raises:
        UserError: it cannot be read, with the reason
    """
    try:
        settings = _over_base(path, [])
        for name in also:
            if name in settings:
                raise UserError(f"{path}: {name}: is no setting: others may name it as ${{{name}}}")
        values: Any = OmegaConf.to_container(OmegaConf.merge(settings, also), resolve=True)
    except (OmegaConfBaseException, TypeError) as error:
        raise UserError(f"{path}: not read: {_one_line(error)}") from error
    return {str(name): value for name, value in values.items() if name not in ("base", *also) and value != "???"}


def _over_base(path: Path, above: list[Path]) -> DictConfig:
    """The settings of a file over those of its base, and so on; ``above`` are the files that it is a base of."""
    settings = _read(path)
    if "base" not in settings:
        return settings
    if not isinstance(settings["base"], str):
        raise UserError(f"{path}: base is {settings['base']!r}: give the name of a file")
    base, above = path.parent / settings["base"], [*above, path]
    if any(base.resolve() == each.resolve() for each in above):
        raise UserError(f"{path}: base: {settings['base']} has this file as a base: name another")
    return DictConfig(OmegaConf.merge(_over_base(base, above), settings))


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


def check_names(path: PathLike, settings: Mapping[str, Any], kind: type) -> None:
    """See that the settings are the fields of a dataclass, and those without a default all there.

    Raises:
        UserError: one is missing, or there is no such setting
    """
    known = {each.name: each for each in fields(kind)}
    for name in settings:
        if name not in known:
            raise UserError(f"{path}: {name}: no such setting; there are: base, {', '.join(known)}")
    for name, each in known.items():
        if each.default is NO_DEFAULT and each.default_factory is NO_DEFAULT and name not in settings:
            raise UserError(f"{path}: {name} is missing")


def check_texts(path: PathLike, settings: Mapping[str, Any], names: Iterable[str]) -> None:
    """See that settings are printable text, those that are there.

    Raises:
        UserError: one is not
    """
    for name in names:
        if name in settings and not (
            isinstance(settings[name], str) and settings[name] and settings[name].isprintable()
        ):
            raise UserError(f"{path}: {name} is {settings[name]!r}: give text")


def check_number(path: PathLike, name: str, number: Any) -> None:
    """See that a setting is a whole number from 1.

    Raises:
        UserError: it is not
    """
    if type(number) is not int or not 1 <= number <= MOST:
        told = number if type(number) in (int, float) and abs(number) < MOST else repr(number)[:40]
        raise UserError(f"{path}: {name} is {told}: give a whole number from 1 to {MOST:,}")


def seeds_of(path: PathLike, seeds: Any) -> tuple[int, ...]:
    """A list of seeds, each there once.

    Raises:
        UserError: it is something else
    """
    if not isinstance(seeds, list) or not seeds:
        raise UserError(f"{path}: seeds: give a list of whole numbers, such as [1, 2, 3]")
    for seed in seeds:
        check_number(path, "one of seeds", seed)
    seed, times = Counter(seeds).most_common(1)[0]
    if times > 1:
        raise UserError(f"{path}: seeds: {seed} is there {times} times: give each seed once")
    return tuple(seeds)


def words_of(path: PathLike, name: str, text: Any) -> list[str]:
    """The words of options, as a shell has them; none of None.

    Raises:
        UserError: they are no text, or have a quotation without an end
    """
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


def check_folder_names(path: PathLike, what: str, names: Iterable[Any]) -> None:
    """See that names can also be those of folders.

    Args:
        what: the setting that has them, and what each of them is: ``rows``

    Raises:
        UserError: one cannot
    """
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]{,99}", name):
            raise UserError(
                f"{path}: {what}: {name!r}: a {SINGULAR[what]} is also a folder: name it by letters, digits and . _ + -"
            )


SINGULAR = {"rows": "row", "families": "family", "sizes": "size"}


def check_languages(path: PathLike, languages: str) -> None:
    """See that a setting is ``source-target``.

    Raises:
        UserError: it is not
    """
    if not re.fullmatch(r"\w+-\w+", languages):
        raise UserError(f"{path}: languages: {languages}: give source-target, such as en-de")
    check_code(languages.partition("-")[2], f"{path}: languages:")
