"""Mixing with a gate: each position's own content decides how much it takes from the mixture.

No position is compared with another. The projections and the gate are those of LightConv (Wu et al. 2019, section 3),
but the gate comes after the mixing, as in gMLP (Liu et al. 2021, section 3.1).
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
    """Weights that each position predicts for its neighbours, ``W x_t + c`` for each head; W and c start at zero.

    The neighbours are the ``reach`` positions before, the position itself and, unless causal, as many positions after.
    With ``softmax`` the weights sum to 1, including those for positions outside the sentence.
    """

    def __init__(self, dim: int, heads: int, reach: int, causal: bool, dropout: float = 0.0, softmax: bool = False):
        super().__init__()
        self.dropout, self.softmax = Dropout(dropout), softmax
        self.heads, self.before, self.window = heads, reach, reach + 1 if causal else 2 * reach + 1
        self.predict = nn.Linear(dim, heads * self.window)
        nn.init.zeros_(self.predict.weight)  # a training starts without the band
        nn.init.zeros_(self.predict.bias)

    def rows(self, x: Tensor, length: int) -> Tensor:
        """Return the band matrix's rows for the last S of T = ``length`` positions, ``S x B x C -> B x H x S x T``."""
        steps = x.size(0)
        weights = self.predict(x).unflatten(-1, (self.heads, self.window))
        weights = self.dropout(torch.softmax(weights, -1) if self.softmax else weights).permute(1, 2, 0, 3)
        # Rows of width + 1 entries are read as rows of width entries: each row's weights move one place further right.
        width = length + self.window - 1
        weights = F.pad(weights, [length - steps, steps]).flatten(-2)[..., : steps * width]
        return weights.unflatten(-1, (steps, width))[..., self.before : self.before + length]


class GatedTokenMixing(TokenMixing):
    """``W_out (sigmoid(W_gate x) * (A W_value x + b))``, with A and b as in ``TokenMixing``.

    With a relative term, A starts at zero, as that term does: at first no position reads another.
    ``band`` is the reach of a ``Band`` that is added to A; 0: none.
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
        """Fold the norm before and the Aff after into the projections, and the relative term into A."""
        self.absorb_relative_()
        first = [self.value_gate] if self.band is None else [self.value_gate, self.band.predict]
        return fold_around_(pre, first, self.out_proj, post)


class GatedAverages(GatedTokenMixing):
    """The gated mixing whose A is a sum of moving averages, ``A[i,j] = sum over e of p_e (1 - d_e) d_e^|i-j|``.

    Each head has as many of them as ``averages`` says, with decays d from 0 to 1 and weights p of any sign. Unless
    causal, there are other d and p for later positions than for earlier ones (as in Ma et al. 2022, section 3.1).
    """

    decay: nn.Parameter | None

    def __init__(self, dim: int, max_positions: int, band: int, averages: int, **matrix: Any):
        super().__init__(dim, max_positions, band, **matrix)
        sizes = (1 if self.causal else 2, *self.weight.shape[:-2], averages)
        self.weight = None  # type: ignore[assignment]  # only folding makes the matrix
        self.decay = nn.Parameter(torch.empty(sizes).uniform_(-2, 4))  # starts with a reach of 1 to 50 positions
        self.share = nn.Parameter(torch.randn(sizes) * averages**-0.5)

    def rows(self, start: int, end: int) -> Tensor:
        """Return rows ``start`` to ``end`` of ``A[:end,:end]``: S x T, or with heads H x S x T."""
        return super().rows(start, end) if self.decay is None else self.dropout(self.averages(start, end))

    def averages(self, start: int, end: int) -> Tensor:
        """Return the same rows as ``rows``, without dropout."""
        assert self.decay is not None
        distances = torch.arange(self.max_positions, device=self.decay.device)
        powers = torch.exp(distances * F.logsigmoid(self.decay).unsqueeze(-1))
        before, *behind = ((self.share * torch.sigmoid(-self.decay)).unsqueeze(-1) * powers).sum(-2)  # N or H x N
        relative = torch.cat([before.flip(-1), *(each[..., 1:] for each in behind)], -1)
        return by_distance(relative, self.max_positions, start, end)

    @torch.no_grad()
    def absorb_relative_(self) -> None:
        """Compute A once and keep it as a matrix."""
        if self.decay is not None:
            self.weight = nn.Parameter(self.averages(0, self.max_positions).contiguous())
            self.decay = None
