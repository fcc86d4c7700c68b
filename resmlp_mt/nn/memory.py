"""What a causal mixing remembers in step-by-step decoding. The caller owns it; the mixing writes and reads it."""

import torch
from torch import Tensor


class Memory:
    """The positions so far, T x B x C, joined by concatenation: the plain form, with which others are compared."""

    def __init__(self, kept: Tensor | None = None):
        self.kept = kept

    @property
    def positions(self) -> int:
        """T"""
        return 0 if self.kept is None else self.kept.size(0)

    def remember(self, new: Tensor) -> None:
        """Add the new positions, S x B x C."""
        self.kept = new if self.kept is None else torch.cat([self.kept, new])

    def all(self) -> Tensor:
        """T x B x C"""
        assert self.kept is not None
        return self.kept

    def mixed(self, rows: Tensor) -> Tensor:
        """``product`` of rows of a matrix and all positions, S x B x C."""
        return product(rows, self.all())

    def reorder(self, order: Tensor) -> None:
        """Give each beam what the beam that it continues remembers; ``order`` (B') indexes the batch."""
        if self.kept is not None:
            self.kept = self.kept.index_select(1, order)


def product(rows: Tensor, x: Tensor) -> Tensor:
    """Rows of a matrix over positions times positions, ``T x B x C -> S x B x C``.

    Rows are S x T; H x S x T, for each of H groups of channels; or B x H x S x T, of each sentence.
    """
    length, batch, channels = x.shape
    if rows.dim() == 2:
        return torch.mm(rows, x.reshape(length, batch * channels)).view(-1, batch, channels)
    heads = rows.size(-3)
    if rows.dim() == 4:
        x = x.reshape(length, batch * heads, channels // heads).transpose(0, 1)
        return torch.bmm(rows.flatten(0, 1), x).transpose(0, 1).reshape(-1, batch, channels)
    width = channels // heads
    x = x.reshape(length, batch, heads, width).permute(2, 0, 1, 3).reshape(heads, length, batch * width)
    return torch.bmm(rows, x).view(heads, -1, batch, width).permute(1, 2, 0, 3).reshape(-1, batch, channels)
