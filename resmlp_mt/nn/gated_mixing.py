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
from .token_mixing import TokenMixing, by_distance


class Band(nn.Module):
    """For each head of a position, weights of the positions around it, ``W x_t + c``, all zero at first.

    They are for the ``reach`` positions before, the position itself and, unless causal, as many behind. With
    ``softmax`` their sum is 1, of which those for positions beyond the sentence are a part.
    """

    def __init__(self, dim: int, heads: int, reach: int, causal: bool, dropout: float = 0.0, softmax: bool = False):
        super().__init__()
        self.dropout, self.softmax = Dropout(dropout), softmax
        self.heads, self.before, self.window = heads, reach, reach + 1 if causal else 2 * reach + 1
        self.predict = nn.Linear(dim, heads * self.window)
        nn.init.zeros_(self.predict.weight)  # a training starts without the band
        nn.init.zeros_(self.predict.bias)

    def rows(self, x: Tensor, length: int) -> Tensor:
        """Rows of the band's matrix for the last S of T positions (``length``): ``S x B x C -> B x H x S x T``."""
        steps = x.size(0)
        weights = self.predict(x).unflatten(-1, (self.heads, self.window))
        weights = self.dropout(torch.softmax(weights, -1) if self.softmax else weights).permute(1, 2, 0, 3)
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


class GatedAverages(GatedTokenMixing):
    """The gated mixing with an A of moving averages, ``A[i,j] = sum over e of p_e (1 - d_e) d_e^|i-j|``.

    Each group of channels has its ``averages``, with decays d from 0 to 1 and weights p of any sign; those of later
    positions, unless causal, are others than those of earlier ones (as in Ma et al. 2022, section 3.1).
    """

    decay: nn.Parameter | None

    def __init__(self, dim: int, max_positions: int, band: int, averages: int, **matrix: Any):
        super().__init__(dim, max_positions, band, **matrix)
        sizes = (1 if self.causal else 2, *self.weight.shape[:-2], averages)
        self.weight = None  # type: ignore[assignment]  # there is a matrix when it is folded
        self.decay = nn.Parameter(torch.empty(sizes).uniform_(-2, 4))  # a reach of 1 to 50 positions at first
        self.share = nn.Parameter(torch.randn(sizes) * averages**-0.5)

    def rows(self, start: int, end: int) -> Tensor:
        """Rows ``start`` to ``end`` of ``A[:end,:end]``: S x T, with heads H x S x T."""
        return super().rows(start, end) if self.decay is None else self.dropout(self.averages(start, end))

    def averages(self, start: int, end: int) -> Tensor:
        """The same without dropout."""
        assert self.decay is not None
        distances = torch.arange(self.max_positions, device=self.decay.device)
        powers = torch.exp(distances * F.logsigmoid(self.decay).unsqueeze(-1))
        before, *behind = ((self.share * torch.sigmoid(-self.decay)).unsqueeze(-1) * powers).sum(-2)  # N; H x N
        relative = torch.cat([before.flip(-1), *(each[..., 1:] for each in behind)], -1)
        return by_distance(relative, self.max_positions, start, end)

    @torch.no_grad()
    def absorb_relative_(self) -> None:
        """Make A once and for all."""
        if self.decay is not None:
            self.weight = nn.Parameter(self.averages(0, self.max_positions).contiguous())
            self.decay = None
