"""How fairseq loads and writes checkpoints: it loads them as data, and writes them whole or not at all."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, one_line_write_errors, remove_unfinished
from resmlp_mt.fairseq_plugin.checkpoints import DoesNotFit, load_parts, one_line, save

_load_to_cpu = checkpoint_utils.load_checkpoint_to_cpu
_load_ensemble = checkpoint_utils.load_model_ensemble_and_task
_save = checkpoint_utils.torch_persistent_save
_copy = PathManager.copy


class TorchWithSafeLoad:
    """The module ``torch`` with our own ``load``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def load(stream: Any, **_: Any) -> dict[str, Any]:
        return load_parts(stream.name)


def load_checkpoint_to_cpu(path: str, arg_overrides: Any = None, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """fairseq's function, but with a one-line error for options in a checkpoint that fairseq does not accept."""
    try:
        return _load_to_cpu(path, arg_overrides, *args, **kwargs)
    except UserError:
        raise
    except OSError as error:
        if error.strerror is None:
            raise  # fairseq's own: no such file
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:  # hydra and omegaconf raise nearly anything
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        given = ", with those of --model-overrides," if arg_overrides else ""
        raise UserError(
            one_line(f"{path}: not loaded: its options or state{given} are not fairseq's ({reason:.300})")
        ) from error


def load_one_by_one(
    filenames: Sequence[str], arg_overrides: Any = None, task: Any = None, *args: Any, **kwargs: Any
) -> tuple[list[Any], Any, Any]:
    """fairseq's ``load_model_ensemble_and_task``, but the error names the file that does not fit."""
    models: list[Any] = []
    config = None
    for filename in filenames:
        try:
            loaded, config, task = _load_ensemble([filename], arg_overrides, task, *args, **kwargs)
        except DoesNotFit as error:
            raise UserError(f"{filename}: {error}") from error
        models += loaded
    return models, config, task


def copy_whole(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    """``PathManager.copy``, but whole; else a kill leaves half a ``checkpoint_last.pt`` and nothing to resume from."""
    if not PathManager.supports_rename(dst_path):  # on another machine
        return _copy(src_path, dst_path, overwrite=overwrite)
    with _whole(dst_path) as stream:
        return _copy(src_path, stream.name, overwrite=True)


def save_whole(obj: Any, filename: str, async_write: bool = False) -> None:
    """``torch_persistent_save``, but whole; fairseq's tries three times on a full disk, and leaves a temporary file."""
    if async_write or not PathManager.supports_rename(filename):
        _save(obj, filename, async_write)
        return
    with _whole(filename) as stream:
        save(obj, stream)


@contextlib.contextmanager
def _whole(path: str) -> Iterator[IO]:
    try:
        with one_line_write_errors(path):
            remove_unfinished(Path(path))  # what a kill left behind
        with atomic_write(path, "wb") as stream:
            yield stream
    except UserError as error:
        raise UserError(f"{error}: make room or give another --save-dir, and run the same command again") from error
