"""Activations by name: fairseq's, and two that it does not have."""

from collections.abc import Callable

import torch.nn.functional as F
from fairseq import utils
from torch import Tensor

OWN: dict[str, Callable[..., Tensor]] = {"silu": F.silu, "hardswish": F.hardswish}
ACTIVATIONS = [*utils.get_available_activation_fns(), *OWN]


def activation(name: str) -> Callable[..., Tensor]:
    """The function of that name."""
    return OWN[name] if name in OWN else utils.get_activation_fn(name)
