"""How fairseq loads and copies checkpoints."""

import ast
import contextlib
import functools
import os
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from resmlp_mt.checkpoints.loading import bad_checkpoints_refused
from resmlp_mt.errors import UserError


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
