"""Mixing with a gate: what a position takes of what the others give depends on the position's own content.

No position is compared with another. The projections and the gate are LightConv's (Wu et al. 2019, section 3), but for
the gate's place: behind the mixing, where gMLP has it (Liu et al. 2021, section 3.1).
"""

import torch
from torch import Tensor, nn

from .affine import Aff, fold_around_
from .band import Band
from .memory import Memory
from .padding import zero_padding
from .token_mixing import TokenMixing


class GatedTokenMixing(TokenMixing):
    """``W_out (sigmoid(W_gate x) * (A W_value x + b))``, with A and b as those of ``TokenMixing``.

    Beside a relative term A starts at zero: at first what a position reads depends on the distance alone.
    ``band`` is the reach of a ``Band`` beside A; 0: none.
    """

    def __init__(
        self,
        dim: int,
        max_positions: int,
        heads: int = 1,
        relative: bool = False,
        causal: bool = False,
        dropout: float = 0.0,
        band: int = 0,
    ):
        super().__init__(max_positions, heads, relative, causal, dropout)
        if relative:
            nn.init.zeros_(self.weight)
        self.value_gate, self.out_proj = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        for linear in self.value_gate, self.out_proj:
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.band = Band(dim, heads, band, causal, dropout) if band > 0 else None

    def mix(self, x: Tensor, memory: Memory, padding: Tensor | None = None) -> Tensor:
        """``S x B x C -> S x B x C``; the values are remembered. ``padding`` is T x B."""
        values, gates = self.value_gate(x).chunk(2, -1)
        memory.remember(zero_padding(values, padding))
        rows = self.rows(memory.positions - x.size(0), memory.positions)
        if self.band is not None:  # B x H x S x T
            rows = rows + self.band.rows(x, memory.positions)
        mixed = self.finish(memory.mixed(rows), rows)
        return self.out_proj(torch.sigmoid(gates) * mixed)

    def fold_(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        """Take in both Aff, in the projections, and the relative term."""
        self.absorb_relative_()
        first = [self.value_gate] if self.band is None else [self.value_gate, self.band.predict]
        return fold_around_(pre, first, self.out_proj, post)
