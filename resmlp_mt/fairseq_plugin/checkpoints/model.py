"""A checkpoint as a model."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from fairseq import models as fairseq_models
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike
from resmlp_mt.data.binarized import made_up_dictionary
from resmlp_mt.fairseq_plugin import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.checkpoints.loading import architecture_of, options_of

PLAIN = {
    "inference_precision": "fp32",
    "cpu_matmul": "blas",
    "checkpoint_activations": False,
    "offload_activations": False,
}
"""Options of a model that is looked at or exported, whatever it was trained with."""


def dictionary_sizes(path: PathLike, checkpoint: Mapping[str, Any]) -> tuple[int, int]:
    """Entries of the source and target dictionary of a ResMLP, by the embeddings; ``path`` is for messages."""
    architecture = architecture_of(checkpoint)
    if ARCH_MODEL_REGISTRY.get(architecture) is not ResMLPTransformerModel:
        raise UserError(f"{path}: holds a {architecture}: give a checkpoint of a resmlp_transformer")
    try:
        source, target = (checkpoint["model"][f"{side}.embed_tokens.weight"] for side in ("encoder", "decoder"))
        return len(source), len(target)
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: lacks embeddings ({error}): give a checkpoint of a resmlp_transformer") from error


def model_of(
    path: PathLike, checkpoint: Mapping[str, Any], dictionaries: tuple[Dictionary, Dictionary] | None = None
) -> ResMLPTransformerModel:
    """Build the model of a checkpoint: not folded, in fp32, in evaluation mode.

    Args:
        path: of the checkpoint, for messages
        checkpoint: as ``load_checkpoint`` gives it
        dictionaries: of source and target; without them, made up ones of the right size
    """
    sizes = dictionary_sizes(path, checkpoint)
    source, target = dictionaries or map(made_up_dictionary, sizes)
    args = Namespace(**{**options_of(checkpoint, "model"), **PLAIN})
    try:
        model = fairseq_models.build_model(args, Namespace(source_dictionary=source, target_dictionary=target))
        model.load_state_dict(checkpoint["model"], strict=True, model_cfg=args)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return model.float().eval()
