"""fairseq's checkpoints: loadable as data and never as code.

PyTorch loads with ``weights_only=True`` unless told otherwise, and fairseq does not tell it: a file that asks for
something which is not known to be harmless is refused with its name.
"""

import contextlib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch

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
    allow_fairseq_checkpoints()
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
