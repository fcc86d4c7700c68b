"""What several commands have in common: types of options, groups of options, how help looks."""

import argparse
import importlib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_args

from resmlp_mt.common.errors import UserError

Given = TypeVar("Given")
Run = Callable[[argparse.Namespace], None]


class _Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the line ends of a command's texts, and tells the defaults."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        untold = action.default is None or isinstance(action.default, bool | list) or "(default" in str(action.help)
        return action.help if untold or action.default == argparse.SUPPRESS else f"{action.help} (default: %(default)s)"


def command_parser(
    description: str | None, epilog: str | None = None, run: Run | None = None
) -> argparse.ArgumentParser:
    """A parser of a command's options; ``run`` is what the command does with them."""
    parser = argparse.ArgumentParser(description=description, epilog=epilog, formatter_class=_Help)
    parser.set_defaults(run=run)
    return parser


def run_of(module: str) -> Run:
    """The function ``run`` of a module of the lab, which is imported when it is called: help needs no torch."""
    return lambda args: importlib.import_module(f"resmlp_mt.lab.{module}").run(args)


def named(text: str) -> Path:
    """A path that an option names. One that is empty is a variable of a script that was not set."""
    if not text:
        raise argparse.ArgumentTypeError("is empty: give a name")
    return Path(text)


def number_within(least: float, most: float) -> Callable[[str], Any]:
    """Numbers from a smallest to a largest one: whole ones, if these are."""
    kind = int if isinstance(most, int) and isinstance(least, int) else float

    def number(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            whole = "a whole number " if kind is int else ""
            raise argparse.ArgumentTypeError(f"{text} is not {whole}from {least:,} to {most:,}")
        return value

    return number


def add_number(
    parser: "argparse._ActionsContainer", name: str, most: int, help: str, default: int | None = None
) -> None:
    """Add an option that is a whole number from 1 to ``most``."""
    parser.add_argument(name, type=number_within(1, most), default=default, metavar="N", help=help)


def add_options(parser: "argparse._ActionsContainer", options: type) -> None:
    """Add the fields of a dataclass of options, which checks their values itself."""
    for each in fields(options):
        about = each.metadata
        name = about.get("name") or ("no_" if each.default is True else "") + each.name
        option: dict[str, Any] = {"dest": each.name, "help": about["help"]}
        kind = (get_args(each.type) or (each.type,))[0]
        if kind is bool and each.default:
            option = {**option, "help": f"do not {about['help']}", "action": "store_false"}
        elif kind is bool:
            option["action"] = "store_true"
        else:
            metavar = None if "choices" in about else {int: "N", float: "X"}.get(kind, name.upper())
            option = {
                **option,
                "type": kind,
                "default": each.default,
                "choices": about.get("choices"),
                "metavar": metavar,
            }
        parser.add_argument("--" + name.replace("_", "-"), **option)


def given(args: argparse.Namespace, options: type[Given]) -> Given:
    """The dataclass of options that ``add_options`` added."""
    return options(**{each.name: getattr(args, each.name) for each in fields(options)})  # type: ignore[arg-type]


def add_exported_folder(parser: argparse.ArgumentParser) -> None:
    """Add the folder of a trained model."""
    parser.add_argument("folder", type=named, metavar="FOLDER", help="made by resmlp-mt export")


def add_form(parser: argparse.ArgumentParser) -> None:
    """Add how a command prints its table."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    form.add_argument("--json", action="store_true", help="print one JSON object")


def add_trainings(
    parser: argparse.ArgumentParser, recipe: str, name: str, out: str, work: Path | None = None
) -> "argparse._MutuallyExclusiveGroup":
    """Add the options of a command with a training for each ``name``; returns the group of those that choose what."""
    parser.add_argument("recipe", type=Path, metavar="RECIPE", help=f"a file such as {recipe}")
    data = "the folder of the data, with data-bin and the reference"
    parser.add_argument("--work", type=named, default=work, required=work is None, metavar="WORK", help=data)
    results = f"the folder for all results (default: WORK/{out}/ and the recipe's name)"
    parser.add_argument("--out", type=named, metavar="OUT", help=results)
    add_number(parser, "--jobs", 1000, "trainings at a time, of one thread each", 1)
    what = parser.add_mutually_exclusive_group()
    again = f"delete what these {name.lower()}s have, and train them again"
    what.add_argument("--retrain", nargs="+", default=[], metavar=name, help=again)
    what.add_argument("--table", action="store_true", help="train nothing: show what is finished")
    return what


def add_user_dir(parser: argparse.ArgumentParser) -> None:
    """Add ``--user-dir``."""
    code = "code of your own that the model needs, such as a mixing; as for fairseq"
    parser.add_argument("--user-dir", metavar="FOLDER", help=code)


def import_user_dir(folder: str | None) -> None:
    """Import the code of a user's own that an option names."""
    from fairseq.utils import import_user_module

    try:
        import_user_module(argparse.Namespace(user_dir=folder))
    except FileNotFoundError as error:
        raise UserError(f"--user-dir {folder}: no such folder") from error
    except ImportError as error:
        raise UserError(f"--user-dir {folder}: cannot be imported: {error}") from error
