"""The linear layer over positions that replaces a Transformer's self-attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .affine import Aff, split
from .elementwise import Dropout
from .memory import Memory


class Mixing(nn.Module):
    """The base class of layers that replace self-attention. A subclass defines ``forward`` or ``mix``.

    A decoder calls ``mix`` step after step; no position may then read a later one.
    """

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Mix all positions in one pass, ``T x B x C -> T x B x C``; x is zero where ``padding`` (T x B) is true."""
        return self.mix(x, Memory(), padding)

    def mix(self, x: Tensor, memory: Memory, padding: Tensor | None = None) -> Tensor:
        """Mix the positions after those in memory, ``S x B x C -> S x B x C``; remember what later steps need."""
        memory.remember(x)
        return self.forward(memory.all(), padding)[-x.size(0) :]

    def fold_(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        """Fold in the norm before and the Aff after, where that is exact; return what is left of them."""
        return pre, post


class TokenMixing(Mixing):
    """``A[:T,:T] x + b[:T]`` over the positions of a sentence (Touvron et al. 2021, equation 2).

    In T x B x C this is one matrix product, ``(T x T) @ (T x BC)``; with H heads, each of H groups of channels has its
    own A and b.

    A is N x N (with heads H x N x N) for ``max_positions`` N, lower-triangular if causal. ``relative`` adds a term that
    depends on the distance alone, ``A[i,j] + r[j-i]``; ``dropout`` drops entries of A (Wu et al. 2019, section 3).
    """

    scale: Tensor
    row_sum_scale: Tensor
    offset: Tensor

    def __init__(
        self, max_positions: int, heads: int = 1, relative: bool = False, causal: bool = False, dropout: float = 0.0
    ):
        super().__init__()
        self.dropout = Dropout(dropout)
        self.max_positions, self.heads, self.causal = max_positions, heads, causal
        of_heads = () if heads == 1 else (heads,)
        self.weight = nn.Parameter(torch.empty(*of_heads, max_positions, max_positions))
        self.bias = nn.Parameter(torch.zeros(*of_heads, max_positions))
        distances = max_positions if causal else 2 * max_positions - 1
        self.relative = nn.Parameter(torch.zeros(*of_heads, distances)) if relative else None
        nn.init.uniform_(self.weight, -(max_positions**-0.5), max_positions**-0.5)
        if causal:  # entries above the diagonal are never read and never get a gradient
            self.weight.data.tril_()
        self.folded = False
        for name in "scale", "row_sum_scale", "offset":  # used after folding
            self.register_buffer(name, torch.zeros(0), persistent=False)

    def rows(self, start: int, end: int) -> Tensor:
        """Return rows ``start`` to ``end`` of ``A[:end,:end]``: S x T, or H x S x T. Override this for another A."""
        rows = self.weight[..., start:end, :end]
        if self.relative is not None:
            rows = rows + by_distance(self.relative, self.max_positions, start, end)
        rows = self.dropout(rows)
        return rows.tril(start) if self.causal and start + 1 < end else rows

    def mix(self, x: Tensor, memory: Memory, padding: Tensor | None = None) -> Tensor:
        """``S x B x C -> S x B x C``; the inputs are remembered."""
        memory.remember(x)
        rows = self.rows(memory.positions - x.size(0), memory.positions)
        return self.add_bias(memory.mixed(rows), rows, padding)

    def add_bias(self, mixed: Tensor, rows: Tensor, padding: Tensor | None = None) -> Tensor:
        """Add b to ``A x`` (S x B x C), or apply all that was folded in; ``rows`` (... x S x T) are those of A."""
        (steps, end), channels = rows.shape[-2:], mixed.size(2)
        if not self.folded:
            return mixed + self.by_channel(self.bias[..., end - steps : end, None], channels)
        real = None if self.causal or padding is None else (~padding).to(rows.dtype)
        row_sums = self.by_channel(rows.sum(-1, keepdim=True) if real is None else rows @ real, channels)
        offset = torch.addcmul(self.offset[end - steps : end, None], row_sums, self.row_sum_scale)
        return torch.addcmul(offset, mixed, self.scale)

    def by_channel(self, values: Tensor, channels: int) -> Tensor:
        """Add a dimension for channels, ``S x B -> S x B x 1``, or with heads ``H x S x B -> S x B x C``."""
        if self.heads == 1:
            return values.unsqueeze(-1)
        return values.permute(1, 2, 0).repeat_interleave(channels // self.heads, 2)

    @torch.no_grad()
    def fold_(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        """Fold in the norm, the Aff and the relative term: scaling channels commutes with mixing positions.

        ``Aff2(A Aff1(x) + b) = (alpha2 alpha1) (A x) + rowsum(A) (x) (alpha2 beta1) + b (x) alpha2 + beta2``, where
        (x) is the outer product and rowsum(A) runs over the real positions of each sentence.
        """
        left, first = split(pre)
        alpha1, beta1, alpha2, beta2 = (x.double() for x in (first.alpha, first.beta, post.alpha, post.beta))
        bias = self.by_channel(self.bias.double().unsqueeze(-1), alpha2.numel()).squeeze(1)
        values = alpha2 * alpha1, alpha2 * beta1, torch.addcmul(beta2, bias, alpha2)
        self.scale, self.row_sum_scale, self.offset = (x.to(self.weight.dtype) for x in values)
        self.absorb_relative_()
        self.folded = True
        return left, nn.Identity()

    @torch.no_grad()
    def absorb_relative_(self) -> None:
        """Add the relative term to A and remove it."""
        if self.relative is not None:
            self.weight.add_(by_distance(self.relative, self.max_positions, 0, self.max_positions))
            self.relative = None


def by_distance(relative: Tensor, positions: int, start: int, end: int) -> Tensor:
    """Return rows ``start`` to ``end`` of the matrix whose entry (i, j) is ``r[j - i]``, ``... x S x T``.

    ``relative`` holds r for 1 - N to N - 1 (``... x 2N-1``), or for 1 - N to 0 (``... x N``), with zeros beyond.
    """
    last = positions + end - start - 1
    values = F.pad(relative[..., positions - end : last], [0, max(last - relative.size(-1), 0)])
    return values.unfold(-1, end, 1).flip(-2)
