"""Activations by name: fairseq's names, and two more."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

gelu_by_tanh = partial(F.gelu, approximate="tanh")  # Hendrycks and Gimpel 2016, section 2

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_fast": gelu_by_tanh,
    "gelu_accurate": gelu_by_tanh,
    "tanh": torch.tanh,
    "linear": nn.Identity(),
    "silu": F.silu,
    "hardswish": F.hardswish,
}
