"""What is done with each entry by itself: activations, dropout, and computing entries again in the backward pass."""

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


_VALUES = 1 << 16  # PyTorch draws 64 bits for every entry; 16 are enough: 4 to 5 % less of a training step


class Dropout(nn.Module):
    """Zero each entry with probability p, on a CPU a multiple of 2^-16, and divide the others by 1 - p."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p
        self.always = False  # in evaluation too (Monte Carlo dropout)

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
    """``layer(function(x))``; the backward pass computes ``function(x)`` again, which always gives the same.

    A linear layer keeps its input for the backward pass. In a channel MLP that is ``Aff(x)`` or ``GELU(h)``, which cost
    little, and x and h are kept anyway: 7 % less memory at width 512, in the same time.
    """
    values = function(x)
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():  # a compiler decides that by itself
        return layer(values)
    saved = values.data_ptr(), values.numel()

    def pack(tensor: Tensor) -> Tensor | torch.Size:
        return tensor.shape if (tensor.data_ptr(), tensor.numel()) == saved else tensor

    def unpack(kept: Tensor | torch.Size) -> Tensor:
        return function(x).view(kept) if isinstance(kept, torch.Size) else kept

    with saved_tensors_hooks(pack, unpack):
        return layer(values)
