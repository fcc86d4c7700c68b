"""Averages of checkpoints, as table 5's models are (Vaswani et al. 2017; fairseq's scripts/average_checkpoints.py)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq.checkpoint_utils import checkpoint_paths

from resmlp_mt.errors import UserError
from resmlp_mt.files import PathLike

Checkpoint = dict[str, Any]

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
    found = checkpoint_paths(str(directory), _PATTERNS[kind], keep_match=True)
    paths = [Path(path) for path, number in found if upper_bound is None or number <= upper_bound]
    if len(paths) < count:
        names = ", ".join(path.name for path in reversed(paths)) or "none"
        bound = "" if upper_bound is None else f" up to {upper_bound}"
        raise UserError(
            f"{directory}: {count} {kind} checkpoints wanted{bound}, there are {len(paths)} ({names}): "
            "ask for fewer, or train on with fairseq-train keeping more"
        )
    return paths[:count][::-1]


def average_checkpoints(paths: Sequence[PathLike]) -> Checkpoint:
    """Average the parameters of checkpoints of one model.

    Floating-point tensors are averaged in float64 and keep their own type; other tensors, the configuration and the
    task's state are the last checkpoint's. Tensors shared in the last checkpoint stay shared. There is no optimizer
    state: fairseq-train --restore-file refuses the result until told --reset-optimizer. In memory are one sum and
    one checkpoint at a time.

    Args:
        paths: oldest first, no file twice

    Raises:
        UserError: a file is missing, broken, not a checkpoint of fairseq, holds a type that PyTorch does not load
            safely, or has other parameters than the first or non-finite ones; with the file and the parameter
    """
    sums: dict[str, torch.Tensor] = {}
    layout: dict[str, tuple[torch.dtype, torch.Size]] = {}
    for path in paths:
        checkpoint = _load(path)
        model: dict[str, torch.Tensor] = checkpoint["model"]
        for key in layout.keys() ^ model.keys() if layout else ():
            raise UserError(f"{path}: parameter {key} is not in both this file and {paths[0]}: not the same model")
        for key, tensor in model.items():
            _check(path, key, tensor, layout.setdefault(key, (tensor.dtype, tensor.shape)))
            if tensor.is_floating_point():
                value = tensor.double()
                sums[key] = sums[key].add_(value) if key in sums else value.clone()
    return _averaged(checkpoint, {key: total.div_(len(paths)) for key, total in sums.items()})
