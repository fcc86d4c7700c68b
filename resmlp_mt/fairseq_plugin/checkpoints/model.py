"""A checkpoint as a model."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from fairseq import models as fairseq_models
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike
from resmlp_mt.data.dictionaries import made_up_dictionary
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
    """Entries of the source and target dictionary, by the embeddings.

    Args:
        path: of the checkpoint, for messages
        checkpoint: as ``load_checkpoint`` gives it

    Raises:
        UserError: it is of another model than a ResMLP, or lacks the embeddings
    """
    architecture, sizes = architecture_of(checkpoint), []
    if ARCH_MODEL_REGISTRY.get(architecture) is not ResMLPTransformerModel:
        raise UserError(f"{path}: holds a {architecture}: give a checkpoint of a resmlp_transformer")
    for name in "encoder.embed_tokens.weight", "decoder.embed_tokens.weight":
        embeddings = checkpoint["model"].get(name)
        if embeddings is None or not embeddings.dim():
            raise UserError(f"{path}: lacks the parameter {name}: give a checkpoint of a resmlp_transformer")
        sizes.append(len(embeddings))
    return sizes[0], sizes[1]


def model_of(
    path: PathLike, checkpoint: Mapping[str, Any], dictionaries: tuple[Dictionary, Dictionary] | None = None
) -> ResMLPTransformerModel:
    """Build the model of a checkpoint: not folded, in fp32, in evaluation mode.

    Args:
        path: of the checkpoint, for messages
        checkpoint: as ``load_checkpoint`` gives it
        dictionaries: of source and target; without them, made up ones of the right size

    Raises:
        UserError: it is of another model than a ResMLP, or its options or parameters do not fit together
    """
    sizes = dictionary_sizes(path, checkpoint)
    source, target = dictionaries or map(made_up_dictionary, sizes)
    options = options_of(checkpoint, "model")
    args = Namespace(**{**{str(name): options[name] for name in options}, **PLAIN})
    try:
        model = fairseq_models.build_model(args, Namespace(source_dictionary=source, target_dictionary=target))
        model.load_state_dict(checkpoint["model"], strict=True, model_cfg=args)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return model.float().eval()
