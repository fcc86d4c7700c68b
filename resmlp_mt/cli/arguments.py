"""Helpers for several commands: types of options, groups of options, the format of the help."""

import argparse
import importlib
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.options import types_of

Given = TypeVar("Given")
Run = Callable[[argparse.Namespace], None]
Container = argparse._ActionsContainer


class _Help(argparse.RawDescriptionHelpFormatter):
    """A formatter of help that keeps line breaks and shows defaults."""

    def _get_help_string(self, action: argparse.Action) -> str:
        default, text = action.default, str(action.help)
        untold = default in (None, argparse.SUPPRESS) or isinstance(default, bool | list | tuple)
        return text if untold or "(default" in text else f"{text} (default: %(default)s)"


def command_parser(epilog: str = "", run: Run | None = None, description: str = "") -> argparse.ArgumentParser:
    """Return a parser of a command's options; ``run`` is the function that does the command's work."""
    parser = argparse.ArgumentParser(description=description, epilog=epilog, formatter_class=_Help)
    parser.set_defaults(run=run)
    return parser


def run_of(module: str) -> Run:
    """Return a function that imports a module of the lab and calls its ``run``: help then needs no torch."""
    return lambda args: importlib.import_module(f"resmlp_mt.lab.{module}").run(args)


def nonempty_path(text: str) -> Path:
    """Return the path that an option names. An empty one is refused: a script's variable was not set."""
    if not text:
        raise argparse.ArgumentTypeError("is empty: give a name")
    return Path(text)


def number_within(least: float, most: float) -> Callable[[str], Any]:
    """Return an argparse type: numbers from ``least`` to ``most``, whole numbers if both are whole."""
    kind = int if isinstance(most, int) and isinstance(least, int) else float

    def number(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            whole = "whole " if kind is int else ""
            raise argparse.ArgumentTypeError(f"{text} is not a {whole}number from {least:,} to {most:,}")
        return value

    return number


def add_number(parser: Container, name: str, most: int, help: str, default: int | None = None, least: int = 1) -> None:
    """Add an option that is a whole number."""
    parser.add_argument(name, type=number_within(least, most), default=default, metavar="N", help=help)


def add_path(parser: Container, name: str, metavar: str | tuple[str, ...], help: str, **more: Any) -> None:
    """Add an option that names a file or folder (or several), or an argument that does."""
    parser.add_argument(name, type=nonempty_path, metavar=metavar, help=help, **more)


def add_repeated(parser: Container, name: str, metavar: str, help: str, required: bool = False) -> None:
    """Add an option that can be given several times."""
    help = f"{help}; can be given several times"
    parser.add_argument(name, action="append", default=[], required=required, metavar=metavar, help=help)


def add_flag(parser: Container, name: str, help: str) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=help)


def add_options(parser: Container, options: type) -> None:
    """Add the fields of a dataclass as options. The dataclass checks their values itself."""
    for each in fields(options):
        about, default = each.metadata, each.default
        name = about.get("name") or ("no_" if default is True else "") + each.name
        kind = types_of(each.type)[0]
        more: dict[str, Any]
        if kind is bool:
            more = {"action": f"store_{not default}".lower()}
        elif about.get("metavar") == "FILE":
            more = {"type": nonempty_path, "default": default, "metavar": "FILE"}
        elif kind is tuple:
            more = {"nargs": "+", "default": [], "metavar": about["metavar"]}
        else:
            metavar = {int: "N", float: "X"}.get(kind, about.get("metavar", name.upper()))
            more = {"type": kind, "default": default}
            more |= {"choices": about["choices"]} if "choices" in about else {"metavar": metavar}
        help = f"do not {about['help']}" if default is True else about["help"]
        parser.add_argument("--" + name.replace("_", "-"), dest=each.name, help=help, **more)


def given(args: argparse.Namespace, options: type[Given]) -> Given:
    """Return the values of the options that ``add_options`` added, as their dataclass."""
    try:
        return options(**{each.name: getattr(args, each.name) for each in fields(options)})  # type: ignore[arg-type]
    except UserError as error:  # it begins with the option, or with a field's name
        raise UserError(re.sub(r"^\w[\w-]*", lambda name: f"--{name[0].replace('_', '-')}", str(error))) from error


def add_user_dir(parser: argparse.ArgumentParser, more: str = ", such as a mixing") -> None:
    """Add ``--user-dir``."""
    code = f"as for fairseq: code of your own that the model needs{more}"
    add_path(parser, "--user-dir", "FOLDER", code)


def import_user_dir(folder: Path | None) -> None:
    """Import the user's own code from the folder that an option names."""
    from fairseq.utils import import_user_module

    try:
        import_user_module(argparse.Namespace(user_dir=folder))
    except FileNotFoundError as error:
        raise UserError(f"--user-dir {folder}: no such folder") from error
    except ImportError as error:
        raise UserError(f"--user-dir {folder}: cannot be imported: {error}") from error
