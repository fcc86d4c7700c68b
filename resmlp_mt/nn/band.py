"""A band beside A that each position predicts from its own content: which of its neighbours it reads, and how much.

The kernels are DynamicConv's (Wu et al. 2019, section 4), without its softmax. No position is compared with another.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import Dropout


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
