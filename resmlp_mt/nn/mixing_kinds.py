"""The layers that can replace a Transformer's self-attention, by their names for ``--token-mixing``."""

from collections.abc import Callable
from typing import Any, TypeVar

from .content_mixing import DynamicConvolution, SelfAttention, Synthesizer
from .convolution import Convolution
from .gated_mixing import GatedAverages, GatedTokenMixing
from .mlp_mixing import MLPTokenMixing
from .recurrent_mixing import SimpleRecurrence
from .token_mixing import Mixing, TokenMixing


def of_heads(cfg: Any) -> dict[str, Any]:
    """Return the arguments that are common to all mixings with heads."""
    return {"heads": cfg.mixing_heads, "dropout": cfg.mixing_dropout, "causal": cfg.causal}


TOKEN_MIXINGS: dict[str, Callable[[Any], Mixing | None]] = {
    "linear": lambda cfg: TokenMixing(cfg.positions, relative=cfg.mixing_relative, **of_heads(cfg)),
    "gated": lambda cfg: GatedTokenMixing(
        cfg.dim, cfg.positions, cfg.mixing_band, relative=cfg.mixing_relative, **of_heads(cfg)
    ),
    "ema": lambda cfg: GatedAverages(cfg.dim, cfg.positions, cfg.mixing_band, cfg.mixing_expansion, **of_heads(cfg)),
    "dynamic": lambda cfg: DynamicConvolution(cfg.dim, size=cfg.mixing_kernel, **of_heads(cfg)),
    "ssru": lambda cfg: SimpleRecurrence(cfg.dim, cfg.positions, cfg.causal),
    "synthesizer": lambda cfg: Synthesizer(cfg.dim, cfg.positions, **of_heads(cfg)),
    "attention": lambda cfg: SelfAttention(cfg.dim, **of_heads(cfg)),
    "none": lambda cfg: None,
    "mlp": lambda cfg: MLPTokenMixing(cfg.positions, cfg.mixing_expansion, cfg.causal),
    "conv": lambda cfg: Convolution(cfg.dim, cfg.mixing_kernel, cfg.causal),
    "depthwise": lambda cfg: Convolution(cfg.dim, cfg.mixing_kernel, cfg.causal, depthwise=True),
    "separable": lambda cfg: Convolution(cfg.dim, cfg.mixing_kernel, cfg.causal, separable=True),
}
"""Functions that build each mixing from a ``LayerConfig``; None means that the layer has no mixing."""

Class = TypeVar("Class", bound=type[Mixing])


def register_mixing(name: str) -> Callable[[Class], Class]:
    """Add a class, called with a ``LayerConfig``, to ``--token-mixing``; ``ValueError`` if the name is in use."""
    if name in TOKEN_MIXINGS:
        raise ValueError(f"there is a token mixing of the name {name!r}: choose another one")

    def register(mixing: Class) -> Class:
        TOKEN_MIXINGS[name] = mixing
        return mixing

    return register
