"""MLP-Mixer's token mixing: a layer of hidden units over the positions of a sentence."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .memory import Memory
from .positions import zero_padding
from .token_mixing import Mixing


class MLPTokenMixing(Mixing):
    """``V GELU(U x + c) + b`` over the positions of a sentence (Tolstikhin et al. 2021, equation 1).

    Each position has E hidden units. U and V are E matrices each, N x N; a sentence of T positions uses their first T
    rows and columns. If causal, they are lower-triangular.
    """

    def __init__(self, max_positions: int, expansion: int, causal: bool = False):
        super().__init__()
        self.expansion, self.causal = expansion, causal
        self.weight_in = nn.Parameter(torch.empty(expansion, max_positions, max_positions))
        self.bias_in = nn.Parameter(torch.zeros(expansion, max_positions))
        self.weight_out = nn.Parameter(torch.empty(expansion, max_positions, max_positions))
        self.bias_out = nn.Parameter(torch.zeros(max_positions))
        for weight, inputs in (self.weight_in, max_positions), (self.weight_out, expansion * max_positions):
            nn.init.uniform_(weight, -(inputs**-0.5), inputs**-0.5)
            if causal:  # entries above the diagonal are never read and never get a gradient
                weight.data.tril_()

    def rows(self, weight: Tensor, start: int, end: int) -> Tensor:
        """Return rows ``start`` to ``end`` of the first ``end`` columns, lower-triangular if causal: E x S x T."""
        rows = weight[:, start:end, :end]
        return rows.tril(start) if self.causal and start + 1 < end else rows

    def hidden(self, x: Tensor, start: int = 0) -> Tensor:
        """Return the hidden units of the positions from ``start`` on, ``T x B x C -> E x S x B x C``."""
        end, batch, channels = x.shape
        rows, bias = self.rows(self.weight_in, start, end), self.bias_in[:, start:end]
        y = torch.addmm(bias.reshape(-1, 1), rows.reshape(-1, end), x.reshape(end, -1))
        return F.gelu(y).view(self.expansion, -1, batch, channels)

    def outputs(self, hidden: Tensor, start: int = 0) -> Tensor:
        """Mix all hidden units into the outputs of the positions from ``start`` on, ``E x T x B x C -> S x B x C``."""
        _, end, batch, channels = hidden.shape
        rows = self.rows(self.weight_out, start, end).transpose(0, 1).reshape(end - start, -1)
        y = torch.addmm(self.bias_out[start:end, None], rows, hidden.reshape(-1, batch * channels))
        return y.view(-1, batch, channels)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; the hidden units of padded positions are not read."""
        return self.outputs(zero_padding(self.hidden(x), padding))

    def mix(self, x: Tensor, memory: Memory, padding: Tensor | None = None) -> Tensor:
        """``S x B x C -> S x B x C``; the inputs and all hidden units are remembered, (1 + E) C channels."""
        start, (_, batch, channels) = memory.positions, x.shape
        inputs = torch.cat([memory.all()[..., :channels], x]) if start else x
        hidden = self.hidden(inputs, start).permute(1, 2, 0, 3).flatten(2)  # S x B x EC
        memory.remember(torch.cat([x, hidden], -1))
        units = memory.all()[..., channels:].reshape(-1, batch, self.expansion, channels)
        return self.outputs(units.permute(2, 0, 1, 3), start)
