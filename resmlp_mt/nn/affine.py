"""Aff: what ResMLP has where a Transformer has LayerNorm."""

import torch
from torch import Tensor, nn


class Aff(nn.Module):
    """``Aff(x) = alpha * x + beta`` per channel (Touvron et al. 2021, equation 1).

    Before a residual branch alpha starts at 1; at a branch's end Aff is the LayerScale and alpha starts small. No
    statistics are computed, so at inference an Aff can be folded into the linear layer beside it.

    Args:
        dim: number of channels C
        init: the value that every alpha starts with; beta starts at 0
    """

    def __init__(self, dim: int, init: float = 1.0):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((dim,), float(init)))
        self.beta = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        """``... x C -> ... x C``"""
        return torch.addcmul(self.beta, x, self.alpha)

    def extra_repr(self) -> str:
        return f"{self.alpha.numel()}"
