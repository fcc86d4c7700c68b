"""Mixing with a gate: what a position takes of what the others give depends on the position's own content.

It is still a linear map over positions, the same for every sentence but for the band, if there is one, and no position
is compared with another. The projections and the gate are LightConv's (Wu et al. 2019, section 3), but for the gate's
place: behind the mixing, where gMLP has it (Liu et al. 2021, section 3.1).
"""

import torch
from torch import Tensor, nn

from .affine import Aff
from .band import Band, by_sentence
from .norm import absorb_input_affine_, absorb_output_affine_, split
from .past import append, positions_of, whole
from .token_mixing import Keep, TokenMixing


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

    def readable(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C``, as it is: padded positions are zero only after ``W_value``."""
        return x

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; ``padding`` (T x B) is true at padded positions."""
        values, gates = self.value_gate(x).chunk(2, -1)
        if padding is not None:
            values = values.masked_fill(padding.unsqueeze(-1), 0.0)
        return self.gated(gates, self.mix_values(x, values))

    def step(self, x: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """``S x B x C -> S x B x C``, the new positions alone; kept are the values.

        Raises:
            ValueError: more positions than the matrix has
        """
        values, gates = self.value_gate(x).chunk(2, -1)
        past = append(past, values, self.max_positions)
        if x.size(0) > 1:
            return self.gated(gates, self.mix_values(x, whole(past))), past
        return self.gated(gates, self.mix_last(past, self.weights(x, positions_of(past)))), past

    def step_over(self, x: Tensor, keep: Keep) -> Tensor:
        """``S x B x C -> S x B x C``; kept are the values."""
        values, gates = self.value_gate(x).chunk(2, -1)
        return self.gated(gates, self.mix_values(x, keep(values)))

    def weights(self, x: Tensor, length: int) -> Tensor:
        """What x (S x B x C), the last of T positions, reads of all: ``H x S x T``; with a band ``B x H x S x T``."""
        rows = self.rows(length - x.size(0), length)
        if self.band is not None:
            rows = rows + self.band.rows(x, length)
        return rows

    def mix_values(self, x: Tensor, values: Tensor) -> Tensor:
        """The values (T x B x C) mixed, ``S x B x C``, for x (S x B x C), the last of the positions."""
        start = values.size(0) - x.size(0)
        if self.band is None:
            return self.mix(values, start)
        weights = self.weights(x, values.size(0))
        return self.finish(by_sentence(weights, values), weights, start)

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
