"""Mixing with a gate: what a position takes of what the others give depends on the position's own content.

It is still a linear map over positions, the same for every sentence but for the band, if there is one, and no position
is compared with another. The projections and the gate are LightConv's (Wu et al. 2019, section 3), but for the gate's
place: behind the mixing, where gMLP has it (Liu et al. 2021, section 3.1).
"""

import torch
from torch import Tensor, nn

from .affine import Aff
from .band import Band
from .memory import Memory, product
from .norm import absorb_input_affine_, absorb_output_affine_, split
from .token_mixing import TokenMixing


class GatedTokenMixing(TokenMixing):
    """``W_out (sigmoid(W_gate x) * (A W_value x + b))``, with A and b as those of ``TokenMixing``.

    Beside a relative term A starts at zero: at first what a position reads depends on the distance alone.

    Args:
        dim: channels C
        band: k; beside A each position reads the k before it and the k behind by weights of its own (``Band``)
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

    def zero_padding(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C``, as it is: padded positions are zero only after ``W_value``."""
        return x

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; ``padding`` (T x B) is true at padded positions."""
        values, gates = self.value_gate(x).chunk(2, -1)
        if padding is not None:
            values = values.masked_fill(padding.unsqueeze(-1), 0.0)
        if self.band is None:
            return self.gated(gates, super().forward(values))
        weights = self.weights(x, x.size(0))
        return self.gated(gates, self.finish(product(weights, values), weights))

    def mix(self, x: Tensor, memory: Memory) -> Tensor:
        """``S x B x C -> S x B x C``; the values are remembered."""
        values, gates = self.value_gate(x).chunk(2, -1)
        memory.remember(values)
        weights = self.weights(x, memory.positions)
        return self.gated(gates, self.finish(memory.mixed(weights), weights))

    def weights(self, x: Tensor, length: int) -> Tensor:
        """What x (S x B x C), the last of T positions, reads of all: ``H x S x T``; with a band ``B x H x S x T``."""
        rows = self.rows(length - x.size(0), length)
        return rows if self.band is None else rows + self.band.rows(x, length)

    def gated(self, gates: Tensor, mixed: Tensor) -> Tensor:
        """``W_out (sigmoid(gates) * mixed)``, S x B x C."""
        return self.out_proj(torch.sigmoid(gates) * mixed)

    def fold_(self, pre: nn.Module, post: nn.Module) -> tuple[nn.Module, nn.Module]:
        """Take in both Aff, in the projections, and the relative term."""
        if not isinstance(post, Aff):
            return pre, post
        left, affine = split(pre)
        absorb_input_affine_(self.value_gate, affine)
        if self.band is not None:
            absorb_input_affine_(self.band.predict, affine)
        absorb_output_affine_(self.out_proj, post)
        self.absorb_relative_()
        return left, nn.Identity()
