"""Attention of target positions to source positions, the only attention that ResMLP keeps."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .elementwise import Dropout


class Source(NamedTuple):
    """The keys and values of B source sentences for one layer, computed once for all steps and beams."""

    keys: Tensor  # B x H x S x D, for H heads of D channels
    values: Tensor  # the same shape
    mask: Tensor | None  # B x H x 1 x S, added to scores: 0, or minus infinity at padding; None without padding

    def reorder(self, sentences: Tensor) -> "Source":
        """Return the source of the sentences with the indices ``sentences`` (B')."""
        return Source(*(None if each is None else each.index_select(0, sentences) for each in self))  # type: ignore


class CrossAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2), with fairseq's parameter names and initial values."""

    def __init__(self, dim: int, source_dim: int, heads: int, dropout: float = 0.0):
        super().__init__()
        self.num_heads, self.head_dim = heads, dim // heads
        self.q_proj, self.out_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.k_proj, self.v_proj = nn.Linear(source_dim, dim), nn.Linear(source_dim, dim)
        self.dropout = Dropout(dropout)
        gain = 2**-0.5 if source_dim == dim else 1.0
        for linear in self.q_proj, self.k_proj, self.v_proj:
            nn.init.xavier_uniform_(linear.weight, gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def source(self, encoded: Tensor, padding: Tensor | None = None) -> Source:
        """Return keys and values of the encoding, S x B x C'; ``padding`` (B x S) is true at padded positions."""
        keys, values = (
            linear(encoded).unflatten(2, (self.num_heads, -1)).permute(1, 2, 0, 3)
            for linear in (self.k_proj, self.v_proj)
        )
        return Source(keys, values, None if padding is None else self.mask(padding, keys))

    def mask(self, padding: Tensor, like: Tensor) -> Tensor:
        """Return the mask that is added to scores, ``B x S -> B x H x 1 x S``, in the dtype of ``like``."""
        mask = torch.zeros(padding.shape, dtype=like.dtype, device=like.device).masked_fill(padding, float("-inf"))
        return mask[:, None, None].repeat(1, self.num_heads, 1, 1)

    def forward(self, x: Tensor, source: Source, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """``T x BK x C -> T x BK x C``, one product for the K rows of a sentence; and the weights, H x BK x T x S."""
        steps, rows, _ = x.shape
        heads, width = self.num_heads, self.head_dim
        sentences = source.keys.size(0)
        beams = rows // sentences
        keys, values = source.keys.flatten(0, 1), source.values.flatten(0, 1)
        queries = self.q_proj(x).view(steps, sentences, beams, heads, width).permute(1, 3, 2, 0, 4)
        queries = queries.reshape(sentences * heads, beams * steps, width) * width**-0.5
        if source.mask is None:
            scores = torch.bmm(queries, keys.transpose(1, 2))
        else:
            scores = torch.baddbmm(source.mask.flatten(0, 1), queries, keys.transpose(1, 2))
        weights = torch.softmax(scores, -1, dtype=torch.float32).type_as(scores)
        y = torch.bmm(self.dropout(weights), values)
        y = y.view(sentences, heads, beams, steps, width).permute(3, 0, 2, 1, 4).reshape(steps, rows, heads * width)
        if not need_weights:
            return self.out_proj(y), None
        weights = weights.view(sentences, heads, beams, steps, -1).transpose(0, 1).reshape(heads, rows, steps, -1)
        return self.out_proj(y), weights
