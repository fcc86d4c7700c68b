"""A band beside A that each position predicts from its own content: which of its neighbours it reads, and how much.

The kernels are DynamicConv's (Wu et al. 2019, section 4), without its softmax. No position is compared with another.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import Dropout


class Band(nn.Module):
    """For each head of a position, weights of the positions around it, ``W x_t + c``, all zero at first.

    Args:
        dim: channels C
        heads: H
        reach: k; weights are for the k positions before, the position itself and, unless causal, the k behind
        causal: no weights for later positions
        dropout: probability that a weight is left out in a training step
    """

    def __init__(self, dim: int, heads: int, reach: int, causal: bool, dropout: float = 0.0):
        super().__init__()
        self.dropout = Dropout(dropout)
        self.heads, self.before, self.window = heads, reach, reach + 1 if causal else 2 * reach + 1
        self.predict = nn.Linear(dim, heads * self.window)
        nn.init.zeros_(self.predict.weight)  # a training starts without the band
        nn.init.zeros_(self.predict.bias)

    def weights(self, x: Tensor) -> Tensor:
        """``... x C -> ... x H x J``, of the J positions that each of these may read."""
        return self.dropout(self.predict(x)).unflatten(-1, (self.heads, self.window))

    def mix(self, x: Tensor, values: Tensor) -> Tensor:
        """``sum_j w_j values[t + j - k]``, where w are the weights of ``x_t``; beyond the values there are zeros.

        Args:
            x: the positions t that read, S x B x C
            values: all positions up to the last of them, or the last ones at least, T x B x C

        Returns:
            S x B x C
        """
        steps, batch, channels = x.shape
        weights = self.weights(x).unsqueeze(-2)
        missing = self.before + steps - values.size(0)  # below zero: so many are not read
        values = F.pad(values, [0, 0, 0, 0, missing, self.window - 1 - self.before])
        values = values.view(-1, batch, self.heads, channels // self.heads)
        y = weights[..., 0] * values[:steps]
        for j in range(1, self.window):
            y = y + weights[..., j] * values[j : j + steps]
        return y.reshape(steps, batch, channels)

    def add_to(self, rows: Tensor, x: Tensor) -> Tensor:
        """``mix`` of the last position of a causal one, added to its row of A.

        Args:
            rows: what the last position reads of all so far, B x H x T
            x: the last position, B x C

        Returns:
            B x H x T
        """
        weights = self.weights(x)[..., -rows.size(2) :]
        return rows + F.pad(weights, [rows.size(2) - weights.size(2), 0])
