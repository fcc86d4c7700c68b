"""fairseq's dropout with random bits that a CPU draws faster."""

import torch
import torch.nn.functional as F
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor

_VALUES = 1 << 16


class Dropout(FairseqDropout):
    """fairseq's dropout, on a CPU from 16 random bits an entry (PyTorch draws a number of 64 for each).

    The probability is rounded to a multiple of 2^-16, and what is kept is scaled by exactly that.
    """

    def is_active(self) -> bool:
        """Whether anything is dropped now."""
        return self.p > 0 and (self.training or self.apply_during_inference)

    @torch.jit.unused
    def draw(self, x: Tensor) -> tuple[Tensor, float]:
        """A mask of x's shape, true where x is kept, and the probability of that."""
        if not x.is_cpu:
            return torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - self.p), 1 - self.p
        kept = min(max(round((1 - self.p) * _VALUES), 1), _VALUES - 1)
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
        values = words.view(torch.int16)[: x.numel()].view(x.shape)
        return values < kept - _VALUES // 2, kept / _VALUES

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        """``any shape -> same shape``"""
        if not self.is_active():
            return x
        if torch.jit.is_scripting() or not x.is_cpu:  # type: ignore[attr-defined]
            return F.dropout(x, self.p, True, inplace)
        return self._drop(x)

    @torch.jit.unused
    def _drop(self, x: Tensor) -> Tensor:
        mask, kept = self.draw(x)
        return x * mask / kept
