"""How fairseq's commands end: in one line where the user can do something about it."""

import contextlib
import errno
import functools
import logging
import os
import re
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from types import ModuleType, TracebackType
from typing import Any

from fairseq import options

from resmlp_mt.common.errors import NO_ROOM, UserError, interrupted, reader_gone

_TRANSLATING = {"fairseq_cli.generate", "fairseq_cli.interactive"}
_COMMANDS = {"fairseq_cli.train", "fairseq_cli.validate", *_TRANSLATING}


def end_commands_in_one_line() -> None:
    """Let fairseq's commands, once they parse their options, end as ours do.

    What they raise of a user's options, files and machine is told without a traceback (a program that uses fairseq
    gets it as it is), output that nobody reads any more ends them, and a file of ``--results-path`` appears whole.
    """
    options.parse_args_and_arch = _parsing(options.parse_args_and_arch)
    command = sys.modules.get("__main__")
    if "fairseq_cli.preprocess" in (_name(command), getattr(getattr(command, "cli_main", None), "__module__", None)):
        sys.excepthook = _telling(sys.excepthook)  # it parses its options by itself, and has begun to


def _parsing(parse_args_and_arch: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(parse_args_and_arch)
    def parsing(parser: Any, input_args: list[str] | None = None, *args: Any, **kwargs: Any) -> Any:
        modules = [module for module in list(sys.modules.values()) if _name(module) in _COMMANDS]
        if input_args is None and modules:
            _tell(modules)
        return parse_args_and_arch(parser, input_args, *args, **kwargs)

    return parsing


def _name(module: ModuleType | None) -> str | None:
    return getattr(getattr(module, "__spec__", None), "name", None)  # __main__ has its own there


def _tell(modules: list[ModuleType]) -> None:
    if getattr(sys.excepthook, "tells_of_fairseq", False):
        return
    sys.excepthook = _telling(sys.excepthook)
    sys.unraisablehook = _interrupting(sys.unraisablehook)
    translating = any(_name(module) in _TRANSLATING for module in modules)
    logging.StreamHandler.handleError = _ending(  # type: ignore[method-assign]
        logging.StreamHandler.handleError, translating
    )
    for module in modules:
        if _name(module) == "fairseq_cli.generate":
            module.main = _whole_results(module.main)  # type: ignore[attr-defined]
        if _name(module) in _TRANSLATING:
            module.main = _flushing(module.main)  # type: ignore[attr-defined]


def _telling(hook: Callable[..., Any]) -> Callable[..., Any]:
    def telling(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            sys.stdout.flush()  # so that the line is the last
        message = explanation(error)
        if message is None:
            hook(kind, error, trace)
        else:
            print(message, file=sys.stderr)

    telling.tells_of_fairseq = True  # type: ignore[attr-defined]
    return telling


def _interrupting(hook: Callable[..., Any]) -> Callable[..., Any]:
    def interrupting(unraisable: Any) -> None:
        if unraisable.exc_type is KeyboardInterrupt:  # Ctrl-C while an object was deleted: Python would drop it
            interrupted()
        hook(unraisable)

    return interrupting


def explanation(error: BaseException) -> str | None:
    """What to tell of an error that one of fairseq's commands ended with, or None if it is none of the user's."""
    text = " ".join(str(error).split())
    if isinstance(error, UserError | BrokenPipeError):
        return None
    if type(error).__name__ == "ProcessRaisedException":  # of torch.multiprocessing: a traceback as text
        _, mark, message = str(error).rpartition(f"{UserError.__module__}.{UserError.__name__}: ")
        return message.strip() if mark else None
    if isinstance(error, OSError):
        if error.errno is None:  # a message of fairseq's
            return text
        return f"{error.filename or 'output'}: {error.strerror}: {_ADVICE.get(error.errno, 'check the path')}"
    if isinstance(error, MemoryError) or re.search(r"can't allocate memory|out of memory", text):
        asked = re.search(r"allocate ([\d.]+ ?[KMG]?i?B|\d+ bytes)", text)
        return (
            f"not enough memory{f' (for {asked[1]} more)' if asked else ''}: lower --max-tokens, --batch-size or "
            "--beam, or make the model smaller"
        )
    if isinstance(error, ImportError) and "install" in text:
        return text
    if type(error).__module__.startswith("torch.distributed") or _DISTRIBUTED.match(text):
        return f"{text}: check the --distributed- options"
    checks = AssertionError | NotImplementedError | RuntimeError | ValueError
    told = (isinstance(error, checks) or type(error) is Exception) and _OPTION.search(text)
    if told or type(error).__module__.startswith("hydra.") or _INTERPOLATION.match(text):
        return text
    return None


_ADVICE = {
    errno.ENOSPC: "make room, then run the same command again",
    errno.EACCES: "change its permissions, or choose another place",
    errno.EROFS: "choose another place",
    errno.ENOENT: "check the name",
}
_OPTION = re.compile(r"(^|[\s`(])--[a-z]")
"""What fairseq says of options names them."""
_INTERPOLATION = re.compile(r"(str )?interpolation key ", re.IGNORECASE)
_DISTRIBUTED = re.compile("world size is|No rendezvous handler|Invalid backend")


def _ending(handle_error: Callable[..., Any], translating: bool) -> Callable[..., Any]:
    @functools.wraps(handle_error)
    def ending(self: logging.Handler, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, BrokenPipeError):
            reader_gone()  # logging would go on, with a traceback for each line
        if translating and isinstance(error, OSError) and error.errno in NO_ROOM:
            raise error  # so would it on a full disk, where the translations cannot be written either
        handle_error(self, record)

    return ending


def _flushing(main: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(main)
    def flushing(*args: Any, **kwargs: Any) -> Any:
        result = main(*args, **kwargs)
        sys.stdout.flush()  # here a reader that is gone can be told of, at the interpreter's end it cannot
        return result

    return flushing


def _whole_results(main: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(main)
    def whole(args: Namespace) -> Any:
        folder = args.results_path
        if folder is None:
            return main(args)
        with _beside(folder, f"generate-{args.gen_subset}.txt") as args.results_path:
            return main(args)

    return whole


@contextlib.contextmanager
def _beside(folder: str, name: str) -> Iterator[str]:
    try:
        os.makedirs(folder, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}.", suffix=".tmp")
    except OSError as error:
        raise UserError(
            f"--results-path {folder}: cannot be written ({error.strerror}): choose another folder, or make it writable"
        ) from error
    with temporary as path:
        yield path
        os.replace(os.path.join(path, name), os.path.join(folder, name))
