"""Mixings whose matrix is computed from the content of the positions, for each head, between two projections."""

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
    """``W_out M (W_in x)``: W_in makes ``parts`` times as many channels; a subclass defines the mixing M."""

    def __init__(self, dim: int, parts: int):
        super().__init__()
        self.in_proj, self.out_proj = nn.Linear(dim, parts * dim), nn.Linear(dim, dim)
        for linear in self.in_proj, self.out_proj:
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def fold_(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        """Fold the norm before and the Aff after into the projections; return what is left of both."""
        return fold_around_(pre, [self.in_proj], self.out_proj, post)


class DynamicConvolution(ContentMixing):
    """DynamicConv (Wu et al. 2019, section 4): each position reads the values ``v = GLU(W_in x)`` around it.

    For each head it predicts the weights from its own v, followed by a softmax. It reads ``size`` positions: itself in
    the middle, or, if causal, itself and the ``size - 1`` positions before it.
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
    """A mixing whose weights, for each head, are the softmax of ``scores`` over all positions; a subclass defines them.

    W_in makes ``parts`` vectors for each position. The last ``remembered`` of them go into memory, the values last.
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
        return x.reshape(x.size(0), x.size(1), self.heads, -1).permute(1, 2, 0, 3)  # ONNX: unflatten would fix sizes

    def scores(self, own: Tensor, memory: Memory) -> Tensor:
        """Return scores (B x H x S x T) of the S new positions; ``own`` is what is not in memory, B x H x S x C/H."""
        raise NotImplementedError


class Synthesizer(SoftmaxMixing):
    """Random and dense Synthesizer (Tay et al. 2020, section 3): ``softmax(a R + (1 - a) W_2 ReLU(W_1 x + b))``.

    R is a learned N x N matrix for each head. W_2 maps a head's hidden channels to a score for each of the N positions;
    it has no bias, as R can learn that. The weight a of R, from 0 to 1, is learned for each head.
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
    """Multi-head self-attention (Vaswani et al. 2017, section 3.2.2), for comparison; memory holds keys and values."""

    remembered = 2

    def __init__(self, dim: int, heads: int, causal: bool, dropout: float = 0.0):
        super().__init__(dim, 3, heads, causal, dropout)

    def scores(self, own: Tensor, memory: Memory) -> Tensor:
        keys, _ = memory.all().chunk(2, -1)
        return own * own.size(-1) ** -0.5 @ self.by_head(keys).transpose(2, 3)
