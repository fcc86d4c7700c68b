"""Activations by name: fairseq's names, and two more."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def gelu_by_tanh(x: Tensor) -> Tensor:
    """GELU's approximation by tanh (Hendrycks and Gimpel 2016, section 2)."""
    return F.gelu(x, approximate="tanh")


def linear(x: Tensor) -> Tensor:
    """x itself."""
    return x


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_fast": gelu_by_tanh,
    "gelu_accurate": gelu_by_tanh,
    "tanh": torch.tanh,
    "linear": linear,
    "silu": F.silu,
    "hardswish": F.hardswish,
}
