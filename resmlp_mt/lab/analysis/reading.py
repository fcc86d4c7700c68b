"""What is read from one checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq.models import ARCH_MODEL_REGISTRY

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike
from resmlp_mt.fairseq_plugin import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.checkpoints.loading import architecture_of, load_checkpoint
from resmlp_mt.fairseq_plugin.checkpoints.model import model_of
from resmlp_mt.lab.analysis import sparsity, used_part
from resmlp_mt.lab.analysis.matrices import MixingMatrix, dense_matrices, mixing_matrices
from resmlp_mt.lab.analysis.sparsity import Sparsity
from resmlp_mt.lab.analysis.used_part import Lengths


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
    mixings: list[MixingMatrix]
    dense: list[Sparsity]
    by_gradient: Lengths | None
    by_bias: Lengths


def read(path: PathLike) -> Reading:
    """Read a checkpoint.

    Raises:
        UserError: it cannot be loaded, is of another model, or its weights are not finite or do not fit together
    """
    checkpoint = load_checkpoint(path)
    architecture = architecture_of(checkpoint)
    if ARCH_MODEL_REGISTRY.get(architecture) is not ResMLPTransformerModel:
        raise UserError(
            f"{path}: no matrix A over positions in this {architecture}: give a checkpoint of a resmlp_transformer "
            "with linear token mixing"
        )
    model = model_of(path, checkpoint)
    try:
        mixings = mixing_matrices(model)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    if not mixings:
        raise UserError(f"{path}: --token-mixing {model.cfg.token_mixing} is no matrix over positions: no A to draw")
    return Reading(
        Path(path),
        architecture,
        checkpoint["optimizer_history"][-1].get("num_updates", 0),
        mixings,
        sparsity.of_dense(dense_matrices(model)),
        used_part.by_gradient(checkpoint, mixings),
        used_part.by_bias(checkpoint["model"], mixings),
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
