"""Convolutions over positions, which table 3 of the ResMLP paper compares with its linear layer."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .memory import Memory
from .token_mixing import Mixing


class Convolution(Mixing):
    """``y_t = sum over k of x_{t+k-before} K_k + b`` (Touvron et al. 2021, table 3), zero beyond the sentence's ends.

    An output reads ``size`` positions; its own is the middle one, or the last one if causal. ``depthwise``: ``K_k``
    scales each channel instead of mixing them; ``separable``: the same, followed by a linear layer over channels.
    """

    def __init__(self, dim: int, size: int, causal: bool, depthwise: bool = False, separable: bool = False):
        super().__init__()
        self.size, self.before = size, size - 1 if causal else size // 2
        self.kernel = nn.Parameter(torch.empty(size, dim) if depthwise or separable else torch.empty(size, dim, dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        bound = self.kernel[..., 0].numel() ** -0.5  # the number of inputs that an output has
        nn.init.uniform_(self.kernel, -bound, bound)
        self.pointwise = nn.Linear(dim, dim) if separable else nn.Identity()

    def mix(self, x: Tensor, memory: Memory, padding: Tensor | None = None) -> Tensor:
        """``S x B x C -> S x B x C``; the inputs are remembered; x is zero at padding."""
        memory.remember(x)
        window = F.pad(memory.all(), [0, 0, 0, 0, self.before, self.size - 1 - self.before])
        window = window[memory.positions - x.size(0) :]
        y: Tensor = self.bias
        for k, kernel in enumerate(self.kernel):
            read = window[k : k + x.size(0)]
            y = torch.addcmul(y, read, kernel) if kernel.dim() == 1 else y + read @ kernel
        return self.pointwise(y)
