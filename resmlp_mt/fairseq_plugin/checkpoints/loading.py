"""fairseq's checkpoints, loaded as data and never as code.

A file is looked at before PyTorch makes anything of it: a type that no checkpoint of fairseq needs is refused with its
name. PyTorch then loads with ``weights_only=True``, and what it made is looked at before anyone computes with it.
"""

import contextlib
import io
import pickletools
import tarfile
import threading
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
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
_DEEPEST, _MOST = 100, 1_000_000
"""levels and values of a checkpoint; those of large models have 8 and some ten thousand"""
_LARGEST_TUPLE = 1000
"""values in a tuple and in those that it holds; shapes and strides of tensors are tuples, and little else is"""
_MOST_COUNTED = 2**31
"""updates, epochs or batches"""

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

_loading = threading.RLock()


@contextlib.contextmanager
def bad_checkpoints_refused(path: PathLike) -> Iterator[None]:
    """While a checkpoint is loaded: whatever goes wrong becomes one line.

    Raises:
        UserError: the file is missing, truncated, or no checkpoint, or holds what is not allowed
    """
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except UserError as error:
        raise UserError(f"{path}: not loaded: {one_line(error)}") from error
    except Exception as error:  # a broken file raises nearly anything, other OSErrors too
        raise UserError(f"{path}: not loaded: {one_line(_reason(error))}") from error


def one_line(message: object) -> str:
    """A message with names from a file in it, without what would break the line or steer a terminal."""
    return "".join(each if each.isprintable() else " " for each in str(message))


def load_checkpoint(path: PathLike) -> dict[str, Any]:
    """Load a checkpoint of fairseq-train as data, onto the CPU.

    Its options name no files and hold nothing that fairseq would run (``checkpoints.options``).

    Raises:
        UserError: it is missing, broken or no checkpoint of fairseq, or holds what no such checkpoint needs
    """
    checkpoint = load_parts(path)
    if not checkpoint.get("optimizer_history"):
        raise UserError(f"{path}: not a checkpoint of fairseq-train: it has no optimizer_history")
    return checkpoint


def load_parts(path: PathLike) -> dict[str, Any]:
    """Load what a checkpoint has, as ``load_checkpoint`` does, without asking for the optimizer's history."""
    with bad_checkpoints_refused(path), open(path, "rb") as stream:
        _check_file(stream)
        stream.seek(0)
        with _types_allowed():
            checkpoint = torch.load(stream, map_location="cpu", weights_only=True)
        _check_values(checkpoint)
        _check_parts(checkpoint)
        return {**checkpoint, **{part: settled(checkpoint[part]) for part in ("args", "cfg") if part in checkpoint}}


def options_of(checkpoint: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """The options of a part of fairseq (``model``, ``task``), as new and old checkpoints have them."""
    options = checkpoint.get("args") or (checkpoint.get("cfg") or {}).get(part) or {}
    return vars(options) if isinstance(options, Namespace) else options


def architecture_of(checkpoint: Mapping[str, Any]) -> str:
    """The name of the ``--arch`` that a checkpoint was trained with, as fairseq finds it."""
    options = options_of(checkpoint, "model")
    return str(options.get("_name") or options.get("arch") or "model")


@contextlib.contextmanager
def _types_allowed() -> Iterator[None]:
    # PyTorch's list is one for the whole process, and on its way out it forgets what was on it before, too.
    with _loading:
        there = torch.serialization.get_safe_globals()
        with torch.serialization.safe_globals([each for each in _ALLOWED if each not in there]):
            yield


def _check_file(stream: IO[bytes]) -> None:
    """Look at a file's parts and at the types that it names."""
    if stream.read(4) != b"PK\x03\x04":  # as PyTorch tells its two formats apart
        stream.seek(0)
        if tarfile.is_tarfile(stream):
            raise UserError("it is a tar file, which PyTorch does not load as data: save it again in today's format")
        stream.seek(0)
        for _ in range(_LEGACY_PICKLES):
            _check_names(stream)
        return
    size = stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream) as archive:
        parts = archive.infolist()
        if len({part.filename for part in parts}) < len(parts):
            raise UserError("two of its parts have one name: do not trust it")
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            raise UserError("it is compressed, as no checkpoint of PyTorch is: do not trust it")
        if sum(part.file_size for part in parts) > size:
            raise UserError("its parts claim to be larger than the file: do not trust it")
        for part in parts:
            if part.filename.endswith(".pkl"):
                _check_names(io.BytesIO(archive.read(part)))


def _check_names(pickled: IO[bytes]) -> None:
    text, tuples = "", _Tuples()
    for operation, argument, _ in pickletools.genops(pickled):
        tuples.check(operation, argument)
        if operation.name == "BINUNICODE" and argument != "storage":
            text = str(argument)
        elif operation.name == "GLOBAL":
            name = str(argument).replace(" ", ".")
            if name not in _NAMES:
                near = f" (near {text[:100]!r})" if text else ""
                raise UserError(f"it holds {name}{near}, which no checkpoint of fairseq needs: do not trust it")


class _Tuples:
    """How many values the tuples of a pickle hold, those of inner tuples as often as these are held.

    A few bytes can hold a tuple twice in the next one, again and again. As the key of a dictionary it would be hashed
    for ever.
    """

    def __init__(self) -> None:
        self._stack: list[int] = []  # numbers of values
        self._marks: list[int] = []  # where parts of it begin
        self._known: dict[Any, int] = {}

    def check(self, operation: pickletools.OpcodeInfo, argument: Any) -> None:
        """Follow the next operation of the pickle."""
        name, stack = operation.name, self._stack
        if name == "MARK":
            self._marks.append(len(stack))
        elif "PUT" in name:
            self._known[argument] = stack[-1]
        elif "GET" in name:
            stack.append(self._known[argument])
        else:
            inputs = [kind for kind in operation.stack_before if kind is not pickletools.stackslice]
            has_mark = pickletools.markobject in inputs
            first = self._marks.pop() - inputs.index(pickletools.markobject) if has_mark else len(stack) - len(inputs)
            held = sum(stack[first:])
            del stack[first:]
            stack += [1 + held if "TUPLE" in name else 1 for _ in operation.stack_after]
            if "TUPLE" in name and held > _LARGEST_TUPLE:
                raise UserError("one of its tuples holds more than any in a checkpoint of fairseq: do not trust it")


def _check_values(checkpoint: Any) -> None:
    """Look at all that was loaded: bounded in number, every tensor as large in memory as it says."""
    waiting: list[tuple[str, Any, int]] = [("", checkpoint, 0)]
    seen = 0
    while waiting:
        name, value, depth = waiting.pop()
        seen += 1
        if depth > _DEEPEST or seen > _MOST:
            raise UserError("it holds itself, or more values than any checkpoint of fairseq: do not trust it")
        if isinstance(value, Tensor):
            if value.numel() * value.element_size() > value.untyped_storage().nbytes():
                raise UserError(
                    f"{name.removeprefix('model.')} says that it has {' x '.join(map(str, value.shape))} values, of "
                    f"which the file holds {value.untyped_storage().nbytes() // value.element_size()}: save it again "
                    "with contiguous tensors"
                )
        elif isinstance(value, Mapping | Namespace):
            entries = vars(value) if isinstance(value, Namespace) else value
            prefix = f"{name[:200]}." if name else ""
            for key, each in entries.items():
                key = str(key) if isinstance(key, str | int | float) else type(key).__name__
                waiting.append((f"{prefix}{key[:200]}", each, depth + 1))
        elif isinstance(value, list | tuple | set):
            waiting.extend((name, each, depth + 1) for each in value)


def _check_parts(checkpoint: Any) -> None:
    """Look at the frame that fairseq's trainer gives a checkpoint."""
    if not isinstance(checkpoint, dict) or "model" not in checkpoint:
        raise UserError("not a checkpoint of fairseq-train: it has no model")
    model = checkpoint["model"]
    if not isinstance(model, dict) or not model:
        kind = "an empty one" if isinstance(model, dict) else f"a {type(model).__name__}"
        raise UserError(f"its model is {kind}, not parameters by name: give a checkpoint of fairseq-train")
    for key, value in model.items():
        if not isinstance(key, str):
            raise UserError(f"a parameter of its model has a {type(key).__name__} for a name: do not trust it")
        if not isinstance(value, Tensor):
            raise UserError(f"{key} is a {type(value).__name__}, not a tensor: not a checkpoint of fairseq-train")
    for part, type_of_part in _PARTS.items():
        value = checkpoint.get(part)
        if value is not None and not isinstance(value, type_of_part):
            raise UserError(f"its {part} is a {type(value).__name__}: not a checkpoint of fairseq-train")
    for part in "model", "task":
        options = (checkpoint.get("cfg") or {}).get(part)
        if not isinstance(options, dict | Namespace | None):
            raise UserError(
                f"its options of the {part} are a {type(options).__name__}: not a checkpoint of fairseq-train"
            )
    extra = checkpoint.get("extra_state") or {}
    for name in "previous_training_time", "best", "val_loss":
        value = extra.get(name)
        # (of several processes the time is a sum over them, a tensor without dimensions)
        is_number = value.dim() == 0 if type(value) is torch.Tensor else type(value) in (int, float, type(None))
        if not is_number:
            raise UserError(f"its {name} is {value!r:.100}, not a number: not a checkpoint of fairseq-train")
    counts = [
        *((entry, "num_updates") for entry in checkpoint.get("optimizer_history") or []),
        *((extra.get("train_iterator") or {}, name) for name in ("epoch", "iterations_in_epoch")),
    ]
    for entry, name in counts:
        number = entry.get(name, 0) if isinstance(entry, dict) else f"in {entry!r:.80}"
        if type(number) is not int or not 0 <= number < _MOST_COUNTED:
            raise UserError(f"its {name} is {number!r:.100}, not a number of them: not a checkpoint of fairseq-train")


def _reason(error: Exception) -> str:
    message = str(error).strip().rpartition("WeightsUnpickler error: ")[2]
    reason = message.split("\n")[0].split(". ")[0] or type(error).__name__
    return f"truncated, or not a checkpoint ({reason}): copy or train it again"
