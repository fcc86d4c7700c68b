"""Types of options, for argparse, and what several commands have in common."""

import argparse
from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar, get_args

from resmlp_mt.common.errors import UserError
from resmlp_mt.translate.options import EngineOptions

Given = TypeVar("Given")


def command_parser(description: str | None, epilog: str | None = None) -> argparse.ArgumentParser:
    """A parser whose help keeps the line ends of its texts."""
    return argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def positive(most: int, least: int = 1) -> Callable[[str], int]:
    """Numbers from 1, or more, to a largest one."""

    def number(text: str) -> int:
        if not text.isdecimal() or len(text) > 9 or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {least:,} to {most:,}")
        return int(text)

    return number


def number_within(least: float, most: float) -> Callable[[str], float]:
    """Numbers from a smallest to a largest one."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {least:g} to {most:g}")
        return value

    return number


def add_form(parser: argparse.ArgumentParser) -> None:
    """Add how a command prints its table."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    form.add_argument("--json", action="store_true", help="print one JSON object")


def add_trainings(parser: argparse.ArgumentParser, name: str) -> "argparse._MutuallyExclusiveGroup":
    """Add ``--jobs`` and ``--anew`` of a command with a training for each ``name``.

    Returns:
        the group of ``--anew``, for options that train nothing
    """
    jobs = "trainings at a time, of one thread each (default: 1)"
    parser.add_argument("--jobs", type=positive(1000), default=1, metavar="N", help=jobs)
    anew = "delete what these have, and train them again"
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--anew", nargs="+", default=[], metavar=name, help=anew)
    return what


def add_options(parser: "argparse._ActionsContainer", options: type) -> None:
    """Add the fields of a dataclass of options, which checks their values itself."""
    for each in fields(options):
        name, about = each.name.replace("_", "-"), each.metadata
        kind = (get_args(each.type) or (each.type,))[0]
        shown = "" if each.default is None else f" (default: {each.default})"
        if kind is bool:
            action = "store_false" if each.default else "store_true"
            help = f"do not {about['help']}" if each.default else about["help"]
            parser.add_argument(
                f"--no-{name}" if each.default else f"--{name}", dest=each.name, action=action, help=help
            )
        else:
            choices = about.get("choices")
            metavar = None if choices else name.rpartition("-")[2].upper()
            help = f"{about['help']}{shown}"
            parser.add_argument(
                f"--{name}", type=kind, default=each.default, choices=choices, metavar=metavar, help=help
            )


def given(args: argparse.Namespace, options: type[Given]) -> Given:
    """The dataclass of options that ``add_options`` added."""
    return options(**{each.name: getattr(args, each.name) for each in fields(options)})  # type: ignore[arg-type]


def add_speed(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add where and how a ``Translator`` computes, as a group, for more options of speed."""
    speed = parser.add_argument_group("speed")
    add_options(speed, EngineOptions)
    return speed


def add_user_dir(parser: argparse.ArgumentParser) -> None:
    """Add ``--user-dir``."""
    parser.add_argument(
        "--user-dir", metavar="FOLDER", help="code of your own that the model needs, such as a mixing; as for fairseq"
    )


def import_user_dir(folder: str | None) -> None:
    """Import the code of a user's own that an option names.

    Raises:
        UserError: there is none, or its name is that of another module
    """
    from fairseq.utils import import_user_module

    try:
        import_user_module(argparse.Namespace(user_dir=folder))
    except FileNotFoundError as error:
        raise UserError(f"--user-dir {folder}: no such folder") from error
    except ImportError as error:
        raise UserError(f"--user-dir {folder}: cannot be imported: {error}") from error
