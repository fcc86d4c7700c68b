"""Mixing with a gate: what a position takes of what the others give depends on the position's own content.

No position is compared with another. The projections and the gate are LightConv's (Wu et al. 2019, section 3), but for
the gate's place: behind the mixing, where gMLP has it (Liu et al. 2021, section 3.1).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .affine import Aff, fold_around_
from .elementwise import Dropout
from .memory import Memory
from .positions import zero_padding
from .token_mixing import TokenMixing


class Band(nn.Module):
    """For each head of a position, weights of the positions around it, ``W x_t + c``, all zero at first.

    They are for the ``reach`` positions before, the position itself and, unless causal, as many behind.
    """

    def __init__(self, dim: int, heads: int, reach: int, causal: bool, dropout: float = 0.0):
        super().__init__()
        self.dropout = Dropout(dropout)
        self.heads, self.before, self.window = heads, reach, reach + 1 if causal else 2 * reach + 1
        self.predict = nn.Linear(dim, heads * self.window)
        nn.init.zeros_(self.predict.weight)  # a training starts without the band
        nn.init.zeros_(self.predict.bias)

    def rows(self, x: Tensor, length: int) -> Tensor:
        """Rows of the band's matrix for the last S of T positions (``length``): ``S x B x C -> B x H x S x T``."""
        steps = x.size(0)
        weights = self.dropout(self.predict(x)).unflatten(-1, (self.heads, self.window)).permute(1, 2, 0, 3)
        # Row after row is one place longer than the matrix is wide: so each one's weights are a place further right.
        width = length + self.window - 1
        weights = F.pad(weights, [length - steps, steps]).flatten(-2)[..., : steps * width]
        return weights.unflatten(-1, (steps, width))[..., self.before : self.before + length]


class GatedTokenMixing(TokenMixing):
    """``W_out (sigmoid(W_gate x) * (A W_value x + b))``, with A and b as those of ``TokenMixing``.

    Beside a relative term A starts at zero: at first what a position reads depends on the distance alone.
    ``band`` is the reach of a ``Band`` beside A; 0: none.
    """

    def __init__(self, dim: int, max_positions: int, band: int = 0, **matrix: Any):
        super().__init__(max_positions, **matrix)
        if self.relative is not None:
            nn.init.zeros_(self.weight)
        self.value_gate, self.out_proj = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        for linear in self.value_gate, self.out_proj:
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.band = Band(dim, self.heads, band, self.causal, self.dropout.p) if band > 0 else None

    def mix(self, x: Tensor, memory: Memory, padding: Tensor | None = None) -> Tensor:
        """``S x B x C -> S x B x C``; the values are remembered. ``padding`` is T x B."""
        values, gates = self.value_gate(x).chunk(2, -1)
        memory.remember(zero_padding(values, padding))
        rows = self.rows(memory.positions - x.size(0), memory.positions)
        if self.band is not None:  # B x H x S x T
            rows = rows + self.band.rows(x, memory.positions)
        mixed = self.add_bias(memory.mixed(rows), rows)
        return self.out_proj(torch.sigmoid(gates) * mixed)

    def fold_(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        """Take in both Aff, in the projections, and the relative term."""
        self.absorb_relative_()
        first = [self.value_gate] if self.band is None else [self.value_gate, self.band.predict]
        return fold_around_(pre, first, self.out_proj, post)
