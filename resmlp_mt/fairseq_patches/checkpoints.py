"""How fairseq loads and copies checkpoints."""

import ast
import contextlib
import functools
import os
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
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


def write_checkpoints_whole() -> None:
    """Let checkpoints and their copies appear whole or not at all, and what could not be written be gone.

    fairseq writes a checkpoint beside its name and renames it, but leaves it there if the disk is full, after a
    traceback for each of three tries; and it copies it onto ``checkpoint_best.pt`` and ``checkpoint_last.pt``: killed
    there, it would leave half a file and nothing to resume from.
    """
    PathManager.copy = staticmethod(_copying_whole(PathManager.copy))
    checkpoint_utils.torch_persistent_save = _saving_whole(checkpoint_utils.torch_persistent_save)


def _copying_whole(copy: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(copy)
    def copy_whole(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if not overwrite or not PathManager.supports_rename(dst_path):
            return copy(src_path, dst_path, overwrite=overwrite)
        with _whole(dst_path) as temporary:
            return copy(src_path, temporary, overwrite=True)

    return copy_whole


def _saving_whole(save: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(save)
    def save_whole(obj: Any, filename: str, async_write: bool = False) -> None:
        if async_write or not PathManager.supports_rename(filename):
            save(obj, filename, async_write)
            return
        with _whole(filename) as temporary, open(temporary, "wb") as stream:
            try:
                torch.save(obj, stream)
            except RuntimeError as error:
                if isinstance(error.__context__, OSError):  # that of the file, which PyTorch hides
                    raise error.__context__ from None
                raise

    return save_whole


@contextlib.contextmanager
def _whole(path: str) -> Iterator[str]:
    temporary = f"{path}.tmp"  # as fairseq itself does: the next save writes over what a kill left behind
    try:
        yield temporary
        with open(temporary, "rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise UserError(
                f"{path}: cannot be written: {error.strerror or error}: make room or give another --save-dir, and run "
                "the same command again"
            ) from error
        raise
