"""fairseq's checkpoints, loaded as data and never as code.

PyTorch loads them with ``weights_only=True``. Before that, a file that names a type which no checkpoint of fairseq
needs is refused with that name; what PyTorch then made must have the frame of a checkpoint.
"""

import io
import pickletools
import zipfile
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike
from resmlp_mt.fairseq_plugin.checkpoints.options import settled

_NUMBERS = {"i8": np.dtype(np.int64), "f8": np.dtype(np.float64)}
"""What the counts of ``--eval-bleu`` are: whole numbers, or, summed over several processes, floating-point ones."""


def _number_type(code: str, *_: Any) -> np.dtype:
    """Stand in for ``numpy.dtype``, which would also make types whose arrays hold pointers taken from the file."""
    if code not in _NUMBERS:
        raise UserError(f"numpy.dtype {code!r} is in no checkpoint of fairseq: do not trust it")
    return _NUMBERS[code]  # numpy's own, which nothing in the file can change


def _new_array(*_: Any) -> np.ndarray:
    """Stand in for numpy's ``_reconstruct``: an empty array, which the file then fills."""
    return np.empty(0)


def _array_type(*_: Any) -> None:
    """Stand in for ``numpy.ndarray``, which is named but never called: called, it reads pointers from the file."""
    raise UserError("it makes a numpy.ndarray as no checkpoint of fairseq does: do not trust it")


_UNNAMEABLE = "\n"
"""Ends the names of types that PyTorch may fill but not make: no name in a file can have a line break."""

_ALLOWED: list[Callable | tuple[Callable, str]] = [
    # cfg["model"]: the options of a model that adds them to a parser, as this one does
    Namespace,
    # extra_state["metrics"]: with --eval-bleu, the n-gram counts of the last validation, in the names of numpy 1 and 2
    (_new_array, "numpy.core.multiarray._reconstruct"),
    (_new_array, "numpy._core.multiarray._reconstruct"),
    (_array_type, "numpy.ndarray"),
    (_number_type, "numpy.dtype"),
    (np.ndarray, f"numpy.ndarray{_UNNAMEABLE}"),
    *((type(number), f"{number}{_UNNAMEABLE}") for number in _NUMBERS.values()),
]
"""What PyTorch does not allow by itself.

A new type belongs here only if a checkpoint of fairseq holds it, and if neither calling it nor setting its state can
run code or read memory.
"""

_NAMES = {
    *("argparse.Namespace", "numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"),
    *("numpy.ndarray", "numpy.dtype", "_codecs.encode"),  # the last is how bytes are written
    *("collections.OrderedDict", "torch.Size", "torch.device", "__builtin__.set", "builtins.set"),
    *("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter"),
    *(f"torch.{kind}Storage" for kind in ("Half", "BFloat16", "Float", "Double")),
    *(f"torch.{kind}Storage" for kind in ("Bool", "Byte", "Char", "Short", "Int", "Long")),
}
"""All that a file may name: no sparse, quantized, complex or empty tensors, nothing that takes memory when called."""

_LEGACY_PICKLES = 5
"""in a file of PyTorch before 1.6, one behind the other"""

_PARTS: dict[str, type] = {
    "args": Namespace,
    "cfg": dict,
    "criterion": dict,
    "optimizer_history": list,
    "last_optimizer_state": dict,
    "task_state": dict,
    "extra_state": dict,
}
"""What fairseq's trainer saves beside the model; each may also be None or missing."""


def load_checkpoint(path: PathLike) -> dict[str, Any]:
    """Load a checkpoint of fairseq-train as data, onto the CPU.

    Its options name no files and hold nothing that fairseq would run (``checkpoints.options``).
    """
    checkpoint = load_parts(path)
    if not checkpoint.get("optimizer_history"):
        raise UserError(f"{path}: not a checkpoint of fairseq-train: it has no optimizer_history")
    return checkpoint


def load_parts(path: PathLike) -> dict[str, Any]:
    """Load what a checkpoint has, as ``load_checkpoint`` does, without asking for the optimizer's history."""
    try:
        with open(path, "rb") as stream:
            _check_names_in_file(stream)
            stream.seek(0)
            with torch.serialization.safe_globals([*_ALLOWED]):
                checkpoint = torch.load(stream, map_location="cpu", weights_only=True)
        _check_frame(checkpoint)
        return {**checkpoint, **{part: settled(checkpoint[part]) for part in ("args", "cfg") if part in checkpoint}}
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except UserError as error:
        raise UserError(one_line(f"{path}: not loaded: {error}")) from error
    except Exception as error:  # a broken file raises nearly anything, other OSErrors too
        message = str(error).strip().rpartition("WeightsUnpickler error: ")[2]
        reason = message.split("\n")[0].split(". ")[0] or type(error).__name__
        told = f"truncated, or not a checkpoint ({reason}): copy or train it again"
        raise UserError(one_line(f"{path}: not loaded: {told}")) from error


def one_line(message: object) -> str:
    """A message with names from a file in it, without what would break the line or steer a terminal."""
    return "".join(each if each.isprintable() else " " for each in str(message))


def options_of(checkpoint: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """The options of a part of fairseq (``model``, ``task``), as new and old checkpoints have them."""
    options = checkpoint.get("args") or (checkpoint.get("cfg") or {}).get(part) or {}
    return vars(options) if isinstance(options, Namespace) else options


def architecture_of(checkpoint: Mapping[str, Any]) -> str:
    """The name of the ``--arch`` that a checkpoint was trained with, as fairseq finds it."""
    options = options_of(checkpoint, "model")
    return str(options.get("_name") or options.get("arch") or "model")


def _check_names_in_file(stream: IO[bytes]) -> None:
    if stream.read(4) != b"PK\x03\x04":  # as PyTorch tells its two formats apart
        stream.seek(0)
        for _ in range(_LEGACY_PICKLES):
            _check_names(stream)
        return
    size = stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > size:
            raise UserError("its parts claim to be larger than the file: do not trust it")
        for part in parts:
            if part.filename.endswith(".pkl"):
                _check_names(io.BytesIO(archive.read(part)))


def _check_names(pickled: IO[bytes]) -> None:
    text = ""
    for operation, argument, _ in pickletools.genops(pickled):
        if operation.name == "BINUNICODE" and argument != "storage":
            text = str(argument)
        elif operation.name == "GLOBAL":
            name = str(argument).replace(" ", ".")
            if name not in _NAMES:
                near = f" (near {text[:100]!r})" if text else ""
                raise UserError(f"it holds {name}{near}, which no checkpoint of fairseq needs: do not trust it")


def _check_frame(checkpoint: Any) -> None:
    """Look for the frame that fairseq's trainer gives a checkpoint, and for parameters that are there in full."""
    model = checkpoint.get("model") if isinstance(checkpoint, dict) else None
    if not isinstance(model, dict) or not model:
        raise UserError("not a checkpoint of fairseq-train: it has no model, parameters by name")
    for name, tensor in model.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise UserError(f"{name!s:.200} of its model is no tensor with a name: not a checkpoint of fairseq-train")
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise UserError(f"{name:.200} has more values than the file holds: save it again with contiguous tensors")
    for part, kind in _PARTS.items():
        if not isinstance(checkpoint.get(part), kind | None):
            raise UserError(f"its {part} is a {type(checkpoint[part]).__name__}: not a checkpoint of fairseq-train")
    for part in "model", "task":
        if not isinstance((checkpoint.get("cfg") or {}).get(part), dict | Namespace | None):
            raise UserError(f"its options of the {part} are not by name: not a checkpoint of fairseq-train")
    if not all(isinstance(entry, dict) for entry in checkpoint.get("optimizer_history") or []):
        raise UserError("its optimizer_history is broken: not a checkpoint of fairseq-train")
