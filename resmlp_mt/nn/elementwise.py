"""Elementwise functions: activations, dropout, and recomputing an input in the backward pass."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

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


_VALUES = 1 << 16  # PyTorch draws 64 random bits for an entry; with 16 a training step takes 4 to 5 % less time


class Dropout(nn.Module):
    """Zero each entry with probability p (on a CPU, rounded to a multiple of 2^-16); divide the others by 1 - p."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p
        self.always = False  # drop in evaluation mode, too (Monte Carlo dropout)

    def forward(self, x: Tensor) -> Tensor:
        """``any shape -> same shape``"""
        if self.p == 0 or not (self.training or self.always):
            return x
        if torch.compiler.is_compiling() or not x.is_cpu:
            return F.dropout(x, self.p, True)
        kept = min(max(round((1 - self.p) * _VALUES), 1), _VALUES - 1)
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
        values = words.view(torch.int16)[: x.numel()].view(x.shape)
        return x * (values < kept - _VALUES // 2) / (kept / _VALUES)


def recompute_input(layer: Callable[[Tensor], Tensor], function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return ``layer(function(x))``; the backward pass recomputes ``function(x)``, which must be deterministic.

    A linear layer stores its input for the backward pass: in a channel MLP, ``Aff(x)`` or ``GELU(h)``. These are cheap
    to recompute, and x and h are stored anyway: 7 % less memory at width 512, in the same time.
    """
    values = function(x)
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():  # a compiler decides what to recompute
        return layer(values)
    saved = values.data_ptr(), values.numel()

    def pack(tensor: Tensor) -> Tensor | torch.Size:
        return tensor.shape if (tensor.data_ptr(), tensor.numel()) == saved else tensor

    def unpack(kept: Tensor | torch.Size) -> Tensor:
        return function(x).view(kept) if isinstance(kept, torch.Size) else kept

    with saved_tensors_hooks(pack, unpack):
        return layer(values)
