"""What is read from one checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from resmlp_mt.analysis import sparsity, used_part
from resmlp_mt.analysis.matrices import Mixing, dense_matrices, mixing_matrices
from resmlp_mt.analysis.sparsity import Sparsity
from resmlp_mt.analysis.used_part import Lengths
from resmlp_mt.checkpoints.loading import architecture_of, load_checkpoint
from resmlp_mt.errors import UserError
from resmlp_mt.files import PathLike


@dataclass(frozen=True)
class Reading:
    """A checkpoint's mixing matrices and what else there is to say of it.

    Attributes:
        path: of the file
        architecture: the name of its ``--arch``
        updates: after how many of them it was saved
        mixings: every A, whole
        dense: the sparsity of the matrices over channels
        by_gradient: used lengths, if the optimizer's state tells them
        by_bias: used lengths, if the biases tell them
    """

    path: Path
    architecture: str
    updates: int
    mixings: list[Mixing]
    dense: list[Sparsity]
    by_gradient: Lengths | None
    by_bias: Lengths


def read(path: PathLike) -> Reading:
    """Read a checkpoint.

    Raises:
        UserError: it cannot be loaded, is of another model, or its weights are not finite or do not fit together
    """
    checkpoint = load_checkpoint(path)
    model, architecture = checkpoint["model"], architecture_of(checkpoint)
    try:
        mixings, dense = mixing_matrices(model), dense_matrices(model)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    if not mixings:
        raise UserError(
            f"{path}: no matrix A over positions in this {architecture}: give a checkpoint of a resmlp_transformer "
            "with linear token mixing"
        )
    for mixing in mixings:
        if not model[mixing.key].is_floating_point():
            raise UserError(f"{path}: {mixing.key} is of {model[mixing.key].dtype}: A was not trained so")
        bias = used_part.bias_of(mixing)
        if bias not in model or model[bias].shape != (*model[mixing.key].shape[:-2], mixing.length):
            raise UserError(f"{path}: lacks the parameter {bias}, of the shape that A has")
        if not torch.isfinite(mixing.weights).all():
            raise UserError(f"{path}: A of {mixing.name} is not finite (NaN or infinity): the training diverged")
    return Reading(
        Path(path),
        architecture,
        checkpoint["optimizer_history"][-1].get("num_updates", 0),
        mixings,
        sparsity.of_dense(dense),
        used_part.by_gradient(checkpoint, mixings),
        used_part.by_bias(model, mixings),
    )


def read_series(paths: Sequence[PathLike]) -> list[Reading]:
    """Read checkpoints of one model, oldest first.

    Raises:
        UserError: one of them cannot be read, or is of another size than the first
    """
    readings = [read(path) for path in paths]
    first = readings[0]
    for reading in readings[1:]:
        if _layout(reading) != _layout(first):
            raise UserError(f"{reading.path}: not the matrices of {first.path}: give checkpoints of one model")
    return readings


def _layout(reading: Reading) -> list[tuple[str, torch.Size]]:
    return [(mixing.key, mixing.weights.shape) for mixing in reading.mixings]
