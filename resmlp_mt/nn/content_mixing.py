"""Mixings whose whole matrix comes from what stands at the positions: between two projections, for heads."""

from torch import Tensor, nn
from torch.nn.functional import glu

from .affine import Aff, fold_around_
from .gated_mixing import Band
from .memory import Memory
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
