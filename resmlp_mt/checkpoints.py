"""fairseq's checkpoints: loadable as data and never as code, and never half-written.

PyTorch loads with ``weights_only=True`` unless told otherwise, and fairseq does not tell it: a file that asks for
something which is not known to be harmless is refused with its name.
"""

import ast
import contextlib
import functools
import os
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from resmlp_mt.errors import UserError
from resmlp_mt.files import PathLike

_NUMBERS = {"i8": np.dtype(np.int64), "f8": np.dtype(np.float64)}
"""What the counts of ``--eval-bleu`` are: whole numbers, or, summed over several processes, floating-point ones."""


def _number_type(code: str, *_: Any) -> np.dtype:
    """Stand in for ``numpy.dtype``, which would also make types whose arrays hold pointers taken from the file."""
    if code not in _NUMBERS:
        raise UnpicklingError(f"numpy.dtype {code!r} is in no checkpoint of fairseq")
    return _NUMBERS[code]  # numpy's own, which nothing in the file can change


def _new_array(*_: Any) -> np.ndarray:
    """Stand in for numpy's ``_reconstruct``: an empty array, which the file then fills."""
    return np.empty(0)


_ALLOWED: list[Callable | tuple[Callable, str]] = [
    # cfg["model"]: the options of a model that adds them to a parser, as this one does
    Namespace,
    # extra_state["metrics"]: with --eval-bleu, the n-gram counts of the last validation, in the names of numpy 1 and 2
    (_new_array, "numpy.core.multiarray._reconstruct"),
    (_new_array, "numpy._core.multiarray._reconstruct"),
    (np.ndarray, "numpy.ndarray"),
    (_number_type, "numpy.dtype"),
    # nameable, but only ever made by _number_type
    *(type(number) for number in _NUMBERS.values()),
]


def allow_fairseq_checkpoints() -> None:
    """Let ``torch.load`` read what the checkpoints of fairseq's translation trainings hold, and nothing else.

    A new type belongs in the list only after ``torch.serialization.get_unsafe_globals_in_checkpoint`` has shown it in a
    checkpoint, and only if neither calling it nor setting its state can run code.
    """
    torch.serialization.add_safe_globals(_ALLOWED)


@contextlib.contextmanager
def bad_checkpoints_refused(path: PathLike) -> Iterator[None]:
    """While a checkpoint is loaded: whatever goes wrong becomes one line.

    Raises:
        UserError: the file is missing, truncated, or no checkpoint, or holds types that are not allowed
    """
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:  # a broken file raises nearly anything, other OSErrors too
        raise UserError(f"{path}: not loaded: {_reason(path, error)}") from error


def load_checkpoint(path: PathLike) -> dict[str, Any]:
    """Load a checkpoint of fairseq-train as data, onto the CPU.

    Raises:
        UserError: it is missing, broken or no checkpoint of fairseq, or holds a type that PyTorch refuses to load
    """
    with bad_checkpoints_refused(path):
        checkpoint = torch.load(path, map_location="cpu")
    if not isinstance(checkpoint, dict) or not {"model", "optimizer_history"} <= checkpoint.keys():
        raise UserError(f"{path}: not a checkpoint of fairseq-train")
    return checkpoint


def options_of(checkpoint: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """The options of a part of fairseq (``model``, ``task``), as new and old checkpoints have them."""
    options = checkpoint.get("args") or (checkpoint.get("cfg") or {}).get(part) or {}
    return vars(options) if isinstance(options, Namespace) else options


def architecture_of(checkpoint: Mapping[str, Any]) -> str:
    """The name of the ``--arch`` that a checkpoint was trained with."""
    options = options_of(checkpoint, "model")
    return str(options.get("arch") or options.get("_name") or "model")


def _reason(path: PathLike, error: Exception) -> str:
    try:
        refused = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:
        refused = []
    if refused:
        return f"it holds {', '.join(sorted(refused))}, which no checkpoint of fairseq needs: do not trust it"
    first_line = str(error).strip().split("\n")[0].split(". ")[0]
    return f"truncated, or not a checkpoint ({first_line or type(error).__name__}): copy or train it again"


def refuse_bad_checkpoints() -> None:
    """Give fairseq a loading of checkpoints that refuses bad ones in one line.

    Wraps ``checkpoint_utils.load_checkpoint_to_cpu``, through which training, generation and ``from_pretrained`` load.
    """
    checkpoint_utils.load_checkpoint_to_cpu = _refusing(checkpoint_utils.load_checkpoint_to_cpu)


def _refusing(load: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(load)
    def refusing_load(path: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        with bad_checkpoints_refused(path):
            state = load(path, *args, **kwargs)
        for name, value in _strings(state.get("args") or state.get("cfg")):
            if _is_call(value):
                raise UserError(f"{path}: not loaded: fairseq might run its option {name}, {value!r}: do not trust it")
        return state

    return refusing_load


def _strings(options: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(options, Namespace):
        options = vars(options)
    if isinstance(options, Mapping):
        for key in options:  # items() of an old omegaconf's mapping needs values that can be hashed
            yield from _strings(options[key], str(key))
    elif isinstance(options, str):
        yield name, options


def _is_call(value: str) -> bool:
    # fairseq evaluates some options as Python: the layers of fconv, "[(512, 3)] * 4", are data, a call is not.
    try:
        return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(value.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # nor could fairseq evaluate it


def copy_checkpoints_atomically() -> None:
    """Give fairseq copies that appear whole or not at all.

    fairseq writes a checkpoint beside its name and renames it, but copies it onto ``checkpoint_best.pt`` and
    ``checkpoint_last.pt``: killed there, it would leave half a file and nothing to resume from.
    """
    PathManager.copy = staticmethod(_atomic(PathManager.copy))


def _atomic(copy: Callable[..., Any]) -> Callable[..., Any]:
    def atomic_copy(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if not overwrite or not PathManager.supports_rename(dst_path):
            return copy(src_path, dst_path, overwrite=overwrite)
        temporary = f"{dst_path}.tmp"  # as fairseq itself does: the next save writes over what a kill left behind
        try:
            copied = copy(src_path, temporary, overwrite=True)
            with open(temporary, "rb+") as stream:
                os.fsync(stream.fileno())
            os.replace(temporary, dst_path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise UserError(f"{dst_path}: cannot be written: {error.strerror or error}") from error
        return copied

    return atomic_copy
