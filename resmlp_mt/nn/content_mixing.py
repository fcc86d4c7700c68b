"""Mixings whose whole matrix comes from what stands at the positions: between two projections, for heads."""

import torch
from torch import Tensor, nn
from torch.nn.functional import glu

from .affine import Aff, fold_around_
from .elementwise import Dropout
from .gated_mixing import Band
from .memory import Memory, product
from .positions import zero_padding
from .token_mixing import Mixing


class ContentMixing(Mixing):
    """``W_out M (W_in x)``: W_in gives a position so many times ``parts`` its channels, M is of a subclass."""

    def __init__(self, dim: int, parts: int):
        super().__init__()
        self.in_proj, self.out_proj = nn.Linear(dim, parts * dim), nn.Linear(dim, dim)
        for linear in self.in_proj, self.out_proj:
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def fold_(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        """Take in both Aff, in the projections."""
        return fold_around_(pre, [self.in_proj], self.out_proj, post)


class DynamicConvolution(ContentMixing):
    """DynamicConv (Wu et al. 2019, section 4): of values ``v = GLU(W_in x)`` a position reads those around it.

    The weights of each head are the softmax of a prediction from the position's own v. ``size`` positions are read, or,
    if causal, the position itself and as many before as make so many.
    """

    def __init__(self, dim: int, heads: int, size: int, causal: bool, dropout: float = 0.0):
        super().__init__(dim, 2)
        self.band = Band(dim, heads, size - 1 if causal else size // 2, causal, dropout, softmax=True)

    def mix(self, x: Tensor, memory: Memory, padding: Tensor | None = None) -> Tensor:
        """``S x B x C -> S x B x C``; the values are remembered. ``padding`` is T x B."""
        values = zero_padding(glu(self.in_proj(x), -1), padding)
        memory.remember(values)
        return self.out_proj(memory.mixed(self.band.rows(values, memory.positions)))


class SoftmaxMixing(ContentMixing):
    """A mixing by whole rows of weights for each head, the softmax of ``scores``, which a subclass gives.

    ``parts`` are what W_in gives, of which the last ``remembered`` are kept of each position, the values at the end.
    """

    remembered = 1

    def __init__(self, dim: int, parts: int, heads: int, causal: bool, dropout: float = 0.0):
        super().__init__(dim, parts)
        self.dim, self.heads, self.own, self.causal = dim, heads, parts - self.remembered, causal
        self.dropout = Dropout(dropout)

    def mix(self, x: Tensor, memory: Memory, padding: Tensor | None = None) -> Tensor:
        """``S x B x C -> S x B x C``; the last parts are remembered. ``padding`` is T x B."""
        own, kept = self.in_proj(x).split([self.own * self.dim, self.remembered * self.dim], -1)
        memory.remember(kept)
        steps, end = x.size(0), memory.positions
        scores = self.scores(self.by_head(own), memory)
        if self.causal and steps > 1:
            later = torch.ones(steps, end, dtype=torch.bool, device=x.device).triu(end - steps + 1)
            scores = scores.masked_fill(later, float("-inf"))
        elif padding is not None:
            scores = scores.masked_fill(padding.t()[:, None, None], float("-inf"))
        rows = self.dropout(torch.softmax(scores, -1))
        if self.remembered == 1:
            return self.out_proj(memory.mixed(rows))
        return self.out_proj(product(rows, memory.all()[..., -self.dim :]))

    def by_head(self, x: Tensor) -> Tensor:
        """``T x B x C -> B x H x T x C/H``"""
        return x.reshape(x.size(0), x.size(1), self.heads, -1).permute(1, 2, 0, 3)  # ONNX: unflatten keeps no size free

    def scores(self, own: Tensor, memory: Memory) -> Tensor:
        """Scores of what the new positions read, ``B x H x S x T``, by the part that is not kept, B x H x S x C/H."""
        raise NotImplementedError


class Synthesizer(SoftmaxMixing):
    """Random and dense Synthesizer (Tay et al. 2020, section 3): ``softmax(a R + (1 - a) W_2 ReLU(W_1 x + b))``.

    R is a learned matrix N x N for each head; W_2 gives from a head's part of the hidden channels a score for each of
    the N positions. Its offset would be a part of R. How much each counts, a from 0 to 1, is learned for each head.
    """

    def __init__(self, dim: int, max_positions: int, heads: int, causal: bool, dropout: float = 0.0):
        super().__init__(dim, 2, heads, causal, dropout)
        self.weight = nn.Parameter(torch.randn(heads, max_positions, max_positions))
        self.dense = nn.Parameter(torch.empty(heads, dim // heads, max_positions))
        nn.init.xavier_uniform_(self.dense)
        self.share = nn.Parameter(torch.zeros(heads, 1, 1))
        if causal:  # entries above the diagonal are never read and never get a gradient
            self.weight.data.tril_()

    def scores(self, own: Tensor, memory: Memory) -> Tensor:
        end = memory.positions
        dense = torch.relu(own) @ self.dense[..., :end]
        learned = self.weight[:, end - own.size(2) : end, :end]
        return dense + torch.sigmoid(self.share) * (learned - dense)


class SelfAttention(SoftmaxMixing):
    """Multi-head self-attention (Vaswani et al. 2017, section 3.2.2), to compare with; keys and values are kept."""

    remembered = 2

    def __init__(self, dim: int, heads: int, causal: bool, dropout: float = 0.0):
        super().__init__(dim, 3, heads, causal, dropout)

    def scores(self, own: Tensor, memory: Memory) -> Tensor:
        keys, _ = memory.all().chunk(2, -1)
        return own * own.size(-1) ** -0.5 @ self.by_head(keys).transpose(2, 3)
