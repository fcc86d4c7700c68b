"""Averages of checkpoints, as the models of table 5 are (Vaswani et al. 2017; fairseq's average_checkpoints.py)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq.checkpoint_utils import checkpoint_paths

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, atomic_write, check_outputs
from resmlp_mt.fairseq_plugin.checkpoints.loading import load_checkpoint
from resmlp_mt.fairseq_plugin.checkpoints.saving import save

Checkpoint = dict[str, Any]

PATTERNS = {
    "epoch": r"checkpoint(\d+)\.pt",
    "update": r"checkpoint_\d+_(\d+)\.pt",
    "other": r"checkpoint(?:_last|_best|\.best_.*)\.pt",
}
"""Names that fairseq-train gives its checkpoints."""


def last_checkpoints(directory: PathLike, count: int, kind: str, upper_bound: int | None = None) -> list[Path]:
    """Find the last ``count`` checkpoints that fairseq-train left in a directory, oldest first.

    Args:
        kind: ``"epoch"`` for ``checkpointE.pt``, ``"update"`` for ``checkpoint_E_U.pt``
        upper_bound: the last epoch or update to use
    """
    if not Path(directory).is_dir():
        raise UserError(f"{directory}: no such directory")
    if count < 1:
        raise UserError(f"{count} {kind} checkpoints: give 1 or more")
    found = checkpoint_paths(str(directory), PATTERNS[kind], keep_match=True)  # newest first
    paths = [Path(path) for path, number in found if upper_bound is None or number <= upper_bound]
    if len(paths) < count:
        bound = "" if upper_bound is None else f" up to {upper_bound}"
        names = ", ".join(path.name for path in reversed(paths)) or "none"
        raise UserError(
            f"{directory}: {count} {kind} checkpoints{bound} are asked for, there are {len(paths)} ({names}): "
            "ask for fewer, or let fairseq-train keep more"
        )
    return paths[:count][::-1]


def inputs_of(
    inputs: Sequence[Path], output: PathLike, epochs: int | None, updates: int | None, upper_bound: int | None
) -> list[Path]:
    """What is averaged: files as they are, or the last so many of a directory, none of which ``output`` replaces."""
    count = updates if epochs is None else epochs
    is_directory = len(inputs) == 1 and inputs[0].is_dir()
    if is_directory != (count is not None) or (count is None and upper_bound is not None):
        raise UserError(
            f"--inputs {inputs[0]}: give one directory with --num-epoch-checkpoints or --num-update-checkpoints (and "
            "--checkpoint-upper-bound), or files without"
        )
    if count is None:
        check_outputs([output], inputs)
        return [*inputs]
    check_outputs([output], [path for each in PATTERNS.values() for path in checkpoint_paths(str(inputs[0]), each)])
    return last_checkpoints(inputs[0], count, "update" if epochs is None else "epoch", upper_bound)


def average_checkpoints(paths: Sequence[PathLike]) -> Checkpoint:
    """Average the parameters of checkpoints of one model.

    Floating-point tensors are averaged in float64 and keep their own type; all else is the last checkpoint's. There is
    no optimizer state, and the optimizer's name says so: fairseq-train refuses to resume from the result unless told to
    ``--reset-optimizer``. In memory are one running sum and one checkpoint at a time.

    Args:
        paths: at least one file, oldest first
    """
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise UserError(f"{', '.join(map(str, paths))}: a checkpoint comes twice: name each once")
    sums: dict[str, torch.Tensor] = {}
    layouts: dict[str, Any] = {}
    checkpoint: Checkpoint = {}
    for path in paths:
        del checkpoint  # before the next is loaded
        checkpoint = load_checkpoint(path)
        checkpoint.pop("last_optimizer_state", None)
        model = checkpoint["model"]
        found = {name: (tensor.dtype, tensor.shape) for name, tensor in model.items()}
        layouts = layouts or found
        other = next((name for name in {**layouts, **found} if layouts.get(name) != found.get(name)), None)
        if other is not None:
            raise UserError(f"{path}: {other} is not as in {paths[0]}: average checkpoints of one model")
        for name, tensor in model.items():
            if not torch.isfinite(tensor).all():
                raise UserError(f"{path}: {name} is not finite: the training diverged; leave the file out")
            if tensor.is_floating_point():
                sums[name] = sums[name].add_(tensor) if name in sums else tensor.to(torch.float64, copy=True)
    for name, total in sums.items():
        model[name].copy_(total.div_(len(paths)))  # in place: what shares memory still does
    history = checkpoint["optimizer_history"]
    extra = checkpoint.get("extra_state") or {}
    return {
        **checkpoint,
        "optimizer_history": [*history[:-1], {**history[-1], "optimizer_name": "none (averaged checkpoint)"}],
        "last_optimizer_state": {},  # not None, with which fairseq-train would go on silently with a new optimizer
        "extra_state": {key: value for key, value in extra.items() if not key.startswith("ema")},  # other weights
    }


def save_checkpoint(checkpoint: Checkpoint, path: PathLike) -> None:
    """Write a checkpoint that appears whole or not at all; equal checkpoints give equal bytes."""
    with atomic_write(path, "wb") as stream:
        save(checkpoint, stream)
