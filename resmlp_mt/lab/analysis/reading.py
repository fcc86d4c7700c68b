"""What is read from checkpoints."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq.models import ARCH_MODEL_REGISTRY

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.checkpoints import architecture_of, load_checkpoint
from resmlp_mt.fairseq_plugin.trained import model_of
from resmlp_mt.lab.analysis import used_part
from resmlp_mt.lab.analysis.matrices import MixingMatrix, Sparsity, dense_matrices, mixing_matrices, of_dense
from resmlp_mt.lab.analysis.used_part import Lengths


@dataclass(frozen=True)
class Reading:
    """A checkpoint's mixing matrices and what else there is to say of it.

    ``mixings`` has every A, whole; ``dense`` the sparsity of the matrices over channels; ``by_gradient`` and
    ``by_bias`` the used lengths that the optimizer's state and the biases tell.
    """

    path: Path
    architecture: str
    updates: int
    mixings: list[MixingMatrix]
    dense: list[Sparsity]
    by_gradient: Lengths
    by_bias: Lengths


def read(path: Path) -> Reading:
    checkpoint = load_checkpoint(path)
    architecture = architecture_of(checkpoint)
    if ARCH_MODEL_REGISTRY.get(architecture) is not ResMLPTransformerModel:
        raise UserError(
            f"{path}: no matrix A over positions in this {architecture}: give a checkpoint of a resmlp_transformer "
            "with linear token mixing"
        )
    model = model_of(path, checkpoint)
    mixings = mixing_matrices(model)
    if not mixings:
        raise UserError(f"{path}: --token-mixing {model.cfg.token_mixing} is no matrix over positions: no A to draw")
    return Reading(
        path,
        architecture,
        checkpoint["optimizer_history"][-1].get("num_updates", 0),
        mixings,
        of_dense(dense_matrices(model)),
        used_part.by_gradient(checkpoint, mixings),
        used_part.by_bias(checkpoint["model"], mixings),
    )


def read_series(paths: Sequence[Path]) -> list[Reading]:
    """Read checkpoints of one model, oldest first."""
    readings = [read(path) for path in paths]
    layouts = [[(mixing.key, mixing.weights.shape) for mixing in reading.mixings] for reading in readings]
    for reading, layout in zip(readings, layouts, strict=True):
        if layout != layouts[0]:
            raise UserError(f"{reading.path}: not the matrices of {paths[0]}: give checkpoints of one model")
    return readings
