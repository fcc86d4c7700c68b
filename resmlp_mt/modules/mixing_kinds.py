"""What may stand where a Transformer has self-attention, by the name that ``--token-mixing`` gives it."""

from collections.abc import Callable

from fairseq.models.transformer import TransformerConfig

from resmlp_mt.modules.convolution import Convolution, DepthwiseConvolution, SeparableConvolution
from resmlp_mt.modules.mlp_token_mixing import CausalMLPTokenMixing, MLPTokenMixing
from resmlp_mt.modules.token_mixing import CausalTokenMixing, Mixing, TokenMixing

Kind = Callable[[TransformerConfig, int, int, bool], Mixing | None]


def _linear(cfg: TransformerConfig, dim: int, positions: int, causal: bool) -> Mixing:
    kind = CausalTokenMixing if causal else TokenMixing
    return kind(positions, cfg.mixing_heads, cfg.mixing_relative)


def _mlp(cfg: TransformerConfig, dim: int, positions: int, causal: bool) -> Mixing:
    kind = CausalMLPTokenMixing if causal else MLPTokenMixing
    return kind(positions, cfg.mixing_expansion)


TOKEN_MIXINGS: dict[str, Kind] = {
    "linear": _linear,
    "none": lambda cfg, dim, positions, causal: None,
    "mlp": _mlp,
    "conv": lambda cfg, dim, positions, causal: Convolution(dim, cfg.mixing_kernel, causal),
    "depthwise": lambda cfg, dim, positions, causal: DepthwiseConvolution(dim, cfg.mixing_kernel, causal),
    "separable": lambda cfg, dim, positions, causal: SeparableConvolution(dim, cfg.mixing_kernel, causal),
}
"""How each is made of the model's options, for C channels and N positions; none at all where that is None."""


def token_mixing(cfg: TransformerConfig, dim: int, positions: int, causal: bool) -> Mixing | None:
    """What mixes the positions of a layer of C (``dim``) channels and N (``positions``) positions."""
    return TOKEN_MIXINGS[cfg.token_mixing](cfg, dim, positions, causal)
