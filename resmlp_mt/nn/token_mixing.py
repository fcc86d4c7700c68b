"""The linear layer over positions that stands where a Transformer has self-attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .affine import Aff
from .dropout import Dropout
from .memory import Memory, product
from .norm import split


class Mixing(nn.Module):
    """What stands where a Transformer has self-attention: a kind of its own needs no more than ``forward``.

    One that is causal (no position reads a later one) can stand in a decoder, where it is asked for step after step.
    """

    def zero_padding(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``, zero at padded positions, which are true in ``padding`` (T x B)."""
        return x if padding is None else x.masked_fill(padding.unsqueeze(-1), 0.0)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """All positions at once, ``T x B x C -> T x B x C``.

        Args:
            x: after ``zero_padding``
            padding: T x B, for kinds that must know it all the same
        """
        raise NotImplementedError

    def mix(self, x: Tensor, memory: Memory) -> Tensor:
        """The positions behind those in memory, ``S x B x C -> S x B x C``; what later steps need is remembered.

        This one is right for every causal mixing: it remembers all inputs and asks for all positions again.
        """
        memory.remember(x)
        return self.forward(memory.all())[-x.size(0) :]

    def fold_(self, pre: nn.Module, post: nn.Module) -> tuple[nn.Module, nn.Module]:
        """Take in what can be taken in exactly of the norm before and the Aff behind; returns what is left of them."""
        return pre, post


class TokenMixing(Mixing):
    """``A[:T,:T] x + b[:T]`` over the positions of a sentence (Touvron et al. 2021, equation 2).

    In T x B x C this is one matrix product, ``(T x T) @ (T x BC)``, without a transpose or a copy. With H heads, each
    of H groups of channels has its own A and b, and there are H such products in one batch.

    Args:
        max_positions: N; A is N x N (H x N x N with heads), b has N entries (H x N)
        heads: H
        relative: add to A a term that depends on the distance alone, ``A[i,j] + r[j-i]``
        causal: A is lower-triangular: position t reads positions 1 to t only ("Sequence-to-sequence ResMLP")
        dropout: probability that an entry of A is left out in a training step (Wu et al. 2019, section 3, of kernels)
    """

    scale: Tensor
    row_sum_scale: Tensor
    offset: Tensor

    def __init__(
        self,
        max_positions: int,
        heads: int = 1,
        relative: bool = False,
        causal: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.dropout = Dropout(dropout)
        self.max_positions, self.heads, self.causal = max_positions, heads, causal
        of_heads = () if heads == 1 else (heads,)
        self.weight = nn.Parameter(torch.empty(*of_heads, max_positions, max_positions))
        self.bias = nn.Parameter(torch.zeros(*of_heads, max_positions))
        distances = max_positions if causal else 2 * max_positions - 1
        self.relative = nn.Parameter(torch.zeros(*of_heads, distances)) if relative else None
        self.folded = False
        nn.init.uniform_(self.weight, -(max_positions**-0.5), max_positions**-0.5)
        if causal:  # entries above the diagonal are never read and never get a gradient
            self.weight.data.tril_()
        for name in "scale", "row_sum_scale", "offset":  # of a folded mixing
            self.register_buffer(name, torch.zeros(0), persistent=False)

    def rows(self, start: int, end: int) -> Tensor:
        """Rows ``start`` to ``end`` of ``A[:end,:end]``: S x T, with heads H x S x T; for another A, override this."""
        rows = self.weight[..., start:end, :end]
        if self.relative is not None:
            rows = rows + by_distance(self.relative, self.max_positions, start, end)
        rows = self.dropout(rows)
        return rows.tril(start) if self.causal and start + 1 < end else rows

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; the padding (T x B) matters to a folded mixing that is not causal alone."""
        rows = self.rows(0, x.size(0))
        if not self.folded:
            return product(rows, x, self.bias[..., : x.size(0), None])
        return self.finish(product(rows, x), rows, None if self.causal else padding)

    def mix(self, x: Tensor, memory: Memory) -> Tensor:
        """``S x B x C -> S x B x C``; the inputs are remembered."""
        memory.remember(x)
        rows = self.rows(memory.positions - x.size(0), memory.positions)
        return self.finish(memory.mixed(rows), rows)

    def finish(self, mixed: Tensor, rows: Tensor, padding: Tensor | None = None) -> Tensor:
        """Add to ``A x`` (S x B x C) what is added, and scale it if folded; ``rows`` are those of A (... x S x T)."""
        (steps, end), channels = rows.shape[-2:], mixed.size(2)
        start = end - steps
        if not self.folded:
            return mixed + self.by_channel(self.bias[..., start:end, None], channels)
        row_sums = rows.sum(-1, keepdim=True) if padding is None else rows @ (~padding).to(rows.dtype)
        row_sums = self.by_channel(row_sums, channels)
        offset = torch.addcmul(self.offset[start:end, None], row_sums, self.row_sum_scale)
        return torch.addcmul(offset, mixed, self.scale)

    def by_channel(self, values: Tensor, channels: int) -> Tensor:
        """Values of positions for all channels, ``S x B -> S x B x 1``; those of heads, ``H x S x B -> S x B x C``"""
        if self.heads == 1:
            return values.unsqueeze(-1)
        return values.permute(1, 2, 0).repeat_interleave(channels // self.heads, 2)

    def fold_(self, pre: nn.Module, post: nn.Module) -> tuple[nn.Module, nn.Module]:
        """Take in both Aff, as scaling channels commutes with mixing positions, and the relative term.

        ``Aff2(A Aff1(x) + b) = (alpha2 alpha1) (A x) + rowsum(A) (x) (alpha2 beta1) + b (x) alpha2 + beta2``, where
        rowsum(A) runs over the real positions of each sentence.
        """
        if not isinstance(post, Aff):
            return pre, post
        left, pre = split(pre)
        with torch.no_grad():
            alpha1, beta1 = pre.alpha.double(), pre.beta.double()
            alpha2, beta2 = post.alpha.double(), post.beta.double()
            dtype = self.weight.dtype
            self.scale = (alpha2 * alpha1).to(dtype)
            self.row_sum_scale = (alpha2 * beta1).to(dtype)
            bias = self.by_channel(self.bias.double().unsqueeze(-1), alpha2.numel()).squeeze(1)
            self.offset = torch.addcmul(beta2, bias, alpha2).to(dtype)
        self.absorb_relative_()
        self.folded = True
        return left, nn.Identity()

    @torch.no_grad()
    def absorb_relative_(self) -> None:
        """Add the relative term to A, once and for all."""
        if self.relative is not None:
            self.weight.add_(by_distance(self.relative, self.max_positions, 0, self.max_positions))
            self.relative = None

    def extra_repr(self) -> str:
        relative = self.relative is not None
        return f"{self.max_positions}, heads={self.heads}, relative={relative}, causal={self.causal}"


def by_distance(relative: Tensor, positions: int, start: int, end: int) -> Tensor:
    """The matrix whose entry (i, j) is that of ``j - i``: its rows ``start`` to ``end``, ``... x S x T``.

    Args:
        relative: ``... x 2N-1``, for distances from 1 - N to N - 1, or ``... x N``, up to 0, with zeros beyond
        positions: N
    """
    last = positions + end - start - 1
    values = F.pad(relative[..., positions - end : last], [0, max(last - relative.size(-1), 0)])
    return values.unfold(-1, end, 1).flip(-2)
