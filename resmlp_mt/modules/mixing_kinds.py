"""What may stand where a Transformer has self-attention, by the name that ``--token-mixing`` gives it."""

from collections.abc import Callable
from typing import Any

from .convolution import Convolution, DepthwiseConvolution, SeparableConvolution
from .mlp_token_mixing import MLPTokenMixing
from .token_mixing import Mixing, TokenMixing

TOKEN_MIXINGS: dict[str, Callable[[Any], Mixing | None]] = {
    "linear": lambda cfg: TokenMixing(cfg.positions, cfg.mixing_heads, cfg.mixing_relative, cfg.causal),
    "none": lambda cfg: None,
    "mlp": lambda cfg: MLPTokenMixing(cfg.positions, cfg.mixing_expansion, cfg.causal),
    "conv": lambda cfg: Convolution(cfg.dim, cfg.mixing_kernel, cfg.causal),
    "depthwise": lambda cfg: DepthwiseConvolution(cfg.dim, cfg.mixing_kernel, cfg.causal),
    "separable": lambda cfg: SeparableConvolution(cfg.dim, cfg.mixing_kernel, cfg.causal),
}
"""How each is made of a ``LayerConfig``; none at all where that is None."""
