"""Averages of checkpoints, as the models of table 5 are (Vaswani et al. 2017; fairseq's average_checkpoints.py)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq.checkpoint_utils import checkpoint_paths

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, atomic_write
from resmlp_mt.fairseq_plugin.checkpoints.loading import load_checkpoint
from resmlp_mt.fairseq_plugin.checkpoints.saving import save

Checkpoint = dict[str, Any]
Layout = tuple[torch.dtype, torch.Size]

_PATTERNS = {"epoch": r"checkpoint(\d+)\.pt", "update": r"checkpoint_\d+_(\d+)\.pt"}


def last_checkpoints(directory: PathLike, count: int, kind: str, upper_bound: int | None = None) -> list[Path]:
    """Find the last ``count`` checkpoints that fairseq-train left in a directory, oldest first.

    Args:
        kind: ``"epoch"`` for ``checkpointE.pt``, ``"update"`` for ``checkpoint_E_U.pt``
        upper_bound: the last epoch or update to use

    Raises:
        UserError: no such directory, or fewer than ``count`` checkpoints, with their names
    """
    if not os.path.isdir(directory):
        raise UserError(f"{directory}: no such directory")
    found = checkpoint_paths(str(directory), _PATTERNS[kind], keep_match=True)  # newest first
    paths = [Path(path) for path, number in found if upper_bound is None or number <= upper_bound]
    if len(paths) < count:
        bound = "" if upper_bound is None else f" up to {upper_bound}"
        names = ", ".join(path.name for path in reversed(paths)) or "none"
        raise UserError(
            f"{directory}: {count} {kind} checkpoints{bound} are asked for, there are {len(paths)} ({names}): "
            "ask for fewer, or let fairseq-train keep more"
        )
    return paths[:count][::-1]


def average_checkpoints(paths: Sequence[PathLike]) -> Checkpoint:
    """Average the parameters of checkpoints of one model.

    Floating-point tensors are averaged in float64 and keep their own type; other tensors, the configuration and the
    state of task and criterion are those of the last checkpoint, and tensors that share memory there still do. There
    is no optimizer state, and the optimizer's name says so: fairseq-train refuses to resume from the result unless
    told to ``--reset-optimizer``. In memory are one running sum and one checkpoint at a time.

    Args:
        paths: at least one file, oldest first

    Raises:
        UserError: a file comes twice, is missing, broken or no checkpoint of fairseq, holds a type that PyTorch refuses
            to load, or differs from the first in its parameters; or a parameter is not finite. With file and parameter
    """
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise UserError(f"{', '.join(map(str, paths))}: a checkpoint comes twice: name each once")
    sums: dict[str, torch.Tensor] = {}
    layouts: dict[str, Layout] = {}
    checkpoint: Checkpoint = {}
    for path in paths:
        del checkpoint  # before the next is loaded
        checkpoint = load_checkpoint(path)
        checkpoint.pop("last_optimizer_state", None)
        layouts = layouts or {key: (tensor.dtype, tensor.shape) for key, tensor in checkpoint["model"].items()}
        _check(path, checkpoint["model"], layouts, paths[0])
        for key, tensor in checkpoint["model"].items():
            if tensor.is_floating_point():
                sums[key] = sums[key].add_(tensor) if key in sums else tensor.to(torch.float64, copy=True)
    means = {key: total.div_(len(paths)) for key, total in sums.items()}
    history = [*checkpoint["optimizer_history"]]
    history[-1] = {**history[-1], "optimizer_name": "none (averaged checkpoint)"}
    extra = checkpoint.get("extra_state") or {}
    return {
        **checkpoint,
        "model": _with_means(checkpoint["model"], means),
        "optimizer_history": history,
        "last_optimizer_state": {},  # not None, with which fairseq-train would go on silently with a new optimizer
        "extra_state": {key: value for key, value in extra.items() if not key.startswith("ema")},  # other weights
    }


def save_checkpoint(checkpoint: Checkpoint, path: PathLike) -> None:
    """Write a checkpoint that appears whole or not at all; equal checkpoints give equal bytes.

    Raises:
        UserError: the file cannot be written
    """
    with atomic_write(path, "wb") as stream:
        save(checkpoint, stream)


def _check(path: PathLike, model: dict[str, torch.Tensor], layouts: dict[str, Layout], first: PathLike) -> None:
    if layouts.keys() != model.keys():
        key = min(layouts.keys() ^ model.keys())
        here, there = ("lacks", "has") if key in layouts else ("has", "lacks")
        raise UserError(f"{path}: {here} the parameter {key}, which {first} {there}: average checkpoints of one model")
    for key, tensor in model.items():
        if layouts[key] != (tensor.dtype, tensor.shape):
            dtype, shape = layouts[key]
            raise UserError(
                f"{path}: {key} is {tuple(tensor.shape)} of {tensor.dtype}, but {tuple(shape)} of {dtype} in {first}: "
                "average checkpoints of one model"
            )
        if not torch.isfinite(tensor).all():
            raise UserError(f"{path}: {key} is not finite (NaN or infinity): the training diverged; leave the file out")


def _with_means(model: dict[str, torch.Tensor], means: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    averaged: dict[str, torch.Tensor] = {}
    owners: dict[tuple, str] = {}  # where a tensor lies in memory -> the first name that it has
    for key, tensor in model.items():
        owner = owners.setdefault((tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype), key)
        if owner != key and (key not in means or torch.equal(means[owner], means[key])):
            averaged[key] = averaged[owner]
        else:
            averaged[key] = means[key].to(tensor.dtype) if key in means else tensor
    return averaged
