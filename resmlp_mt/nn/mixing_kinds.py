"""What may stand where a Transformer has self-attention, by the name that ``--token-mixing`` gives it."""

from collections.abc import Callable
from typing import Any, TypeVar

from .convolution import Convolution
from .gated_mixing import GatedTokenMixing
from .mlp_token_mixing import MLPTokenMixing
from .token_mixing import Mixing, TokenMixing


def of_a_matrix(cfg: Any) -> tuple[int, int, bool, bool, float]:
    """The arguments of a ``TokenMixing``."""
    return cfg.positions, cfg.mixing_heads, cfg.mixing_relative, cfg.causal, cfg.mixing_dropout


TOKEN_MIXINGS: dict[str, Callable[[Any], Mixing | None]] = {
    "linear": lambda cfg: TokenMixing(*of_a_matrix(cfg)),
    "gated": lambda cfg: GatedTokenMixing(cfg.dim, *of_a_matrix(cfg), cfg.mixing_band),
    "none": lambda cfg: None,
    "mlp": lambda cfg: MLPTokenMixing(cfg.positions, cfg.mixing_expansion, cfg.causal),
    "conv": lambda cfg: Convolution(cfg.dim, cfg.mixing_kernel, cfg.causal),
    "depthwise": lambda cfg: Convolution(cfg.dim, cfg.mixing_kernel, cfg.causal, depthwise=True),
    "separable": lambda cfg: Convolution(cfg.dim, cfg.mixing_kernel, cfg.causal, separable=True),
}
"""How each is made of a ``LayerConfig``; none at all where that is None."""

Class = TypeVar("Class", bound=type[Mixing])


def register_mixing(name: str) -> Callable[[Class], Class]:
    """Make a class of one's own a choice of ``--token-mixing``; it is called with a ``LayerConfig``."""
    if name in TOKEN_MIXINGS:
        raise ValueError(f"there is a token mixing of the name {name!r}: choose another one")

    def register(mixing: Class) -> Class:
        TOKEN_MIXINGS[name] = mixing
        return mixing

    return register
