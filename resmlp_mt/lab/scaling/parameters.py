"""How many parameters a model has, by what they are for."""

from dataclasses import dataclass

from torch import nn

from resmlp_mt.nn.mlp_token_mixing import MLPTokenMixing
from resmlp_mt.nn.token_mixing import TokenMixing

_EMBEDDING = "embed_tokens", "embed_positions", "output_projection"


@dataclass(frozen=True)
class Parameters:
    """Trained parameters, each counted once.

    Attributes:
        embedding: of tokens and of positions, and the output projection: they grow with the vocabulary
        encoder: without its embeddings, with its mixing matrices
        decoder: the same of the decoder
        mixing: of both, what connects positions by a fixed matrix (A, its bias, its relative term): it grows with the
            number of positions, not with the width, and is stored whole also where it is triangular
    """

    embedding: int
    encoder: int
    decoder: int
    mixing: int

    @property
    def non_embedding(self) -> int:
        """Encoder and decoder, mixing matrices included: what is called N."""
        return self.encoder + self.decoder

    @property
    def without_mixing(self) -> int:
        """Encoder and decoder without mixing matrices: the other choice of N."""
        return self.non_embedding - self.mixing


def count(model: nn.Module) -> Parameters:
    """Count the parameters of a translation model of fairseq's."""
    mixing = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, TokenMixing | MLPTokenMixing)
        for parameter in module.parameters(recurse=False)  # not the projections of a gated one
    }
    found = dict.fromkeys(("embedding", "encoder", "decoder", "mixing"), 0)
    for name, parameter in model.named_parameters():
        side = "embedding" if any(part in name for part in _EMBEDDING) else name.partition(".")[0]
        found[side] += parameter.numel()
        if id(parameter) in mixing:
            found["mixing"] += parameter.numel()
    return Parameters(**found)
