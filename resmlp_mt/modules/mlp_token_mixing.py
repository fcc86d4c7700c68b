"""MLP-Mixer's token mixing: two linear layers over positions with a GELU between."""

import torch
import torch.nn.functional as F
from fairseq.incremental_decoding_utils import FairseqIncrementalState
from torch import Tensor, nn

from resmlp_mt.modules.past import IncrementalState, append, positions_of, reorder_, whole
from resmlp_mt.modules.token_mixing import Mixing


class MLPTokenMixing(Mixing):
    """``V GELU(U x + c) + b`` over the positions of a sentence (Tolstikhin et al. 2021, equation 1).

    As sentences differ in length, the hidden units belong to positions, E to each: a sentence has those of its own
    positions. U and V are E matrices N x N each, of which a sentence of T positions reads the first T x T.

    Args:
        max_positions: N
        expansion: E
    """

    __constants__ = ["causal"]
    causal = False

    def __init__(self, max_positions: int, expansion: int):
        super().__init__()
        self.max_positions, self.expansion = max_positions, expansion
        self.weight_in = nn.Parameter(torch.empty(expansion, max_positions, max_positions))
        self.bias_in = nn.Parameter(torch.zeros(expansion, max_positions))
        self.weight_out = nn.Parameter(torch.empty(expansion, max_positions, max_positions))
        self.bias_out = nn.Parameter(torch.zeros(max_positions))
        for weight, inputs in (self.weight_in, max_positions), (self.weight_out, expansion * max_positions):
            nn.init.uniform_(weight, -(inputs**-0.5), inputs**-0.5)
            if self.causal:  # entries above the diagonal are never read and never get a gradient
                weight.data.tril_()

    def rows(self, weight: Tensor, start: int, end: int) -> Tensor:
        """Rows ``start`` to ``end`` of the first ``end`` columns, of the lower triangles if causal: E x S x T."""
        rows = weight[:, start:end, :end]
        return rows.tril(start) if self.causal and start + 1 < end else rows

    def hidden(self, x: Tensor, start: int = 0) -> Tensor:
        """``T x B x C -> E x S x B x C``: the hidden units of the positions from ``start`` on."""
        end, batch, channels = x.shape
        rows, bias = self.rows(self.weight_in, start, end), self.bias_in[:, start:end]
        y = torch.addmm(bias.reshape(-1, 1), rows.reshape(-1, end), x.reshape(end, -1))
        return F.gelu(y).view(self.expansion, -1, batch, channels)

    def outputs(self, hidden: Tensor, start: int = 0) -> Tensor:
        """``E x T x B x C -> S x B x C``: positions from ``start`` on of the mixture of all hidden units."""
        _, end, batch, channels = hidden.shape
        rows = self.rows(self.weight_out, start, end).transpose(0, 1).reshape(end - start, -1)
        y = torch.addmm(self.bias_out[start:end, None], rows, hidden.reshape(-1, batch * channels))
        return y.view(-1, batch, channels)

    def forward(
        self, x: Tensor, padding: Tensor | None = None, incremental_state: IncrementalState | None = None
    ) -> Tensor:
        """``T x B x C -> T x B x C``; x is ``readable``, and the hidden units of padded positions are not read."""
        hidden = self.hidden(x)
        if padding is not None:
            hidden = hidden.masked_fill(padding.unsqueeze(-1), 0.0)
        return self.outputs(hidden)

    def extra_repr(self) -> str:
        return f"{self.max_positions}, expansion={self.expansion}"


class CausalMLPTokenMixing(FairseqIncrementalState, MLPTokenMixing):
    """The same, lower-triangular by blocks: hidden units read their own and earlier positions, and so do outputs.

    While decoding step by step it keeps its past inputs and hidden units.
    """

    causal = True

    def forward(
        self, x: Tensor, padding: Tensor | None = None, incremental_state: IncrementalState | None = None
    ) -> Tensor:
        """``T x B x C -> T x B x C``; with a state, x holds the positions that follow those of the calls before."""
        if incremental_state is None:
            return self.outputs(self.hidden(x))
        before = self.get_incremental_state(incremental_state, "inputs")  # type: ignore[operator]
        inputs = append(before, x, self.max_positions)
        self.set_incremental_state(incremental_state, "inputs", inputs)  # type: ignore[operator]
        start = positions_of(inputs) - x.size(0)
        new = self.hidden(whole(inputs), start).permute(1, 2, 0, 3).flatten(2)  # S x B x EC
        before = self.get_incremental_state(incremental_state, "hidden")  # type: ignore[operator]
        hidden = append(before, new, self.max_positions)
        self.set_incremental_state(incremental_state, "hidden", hidden)  # type: ignore[operator]
        past = whole(hidden).unflatten(2, (self.expansion, x.size(2)))
        return self.outputs(past.permute(2, 0, 1, 3), start)

    @torch.jit.export
    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> None:
        """Give each beam the past of the beam that it continues; ``new_order`` (B') indexes the batch."""
        for name in "inputs", "hidden":
            reorder_(self.get_incremental_state(incremental_state, name), new_order)  # type: ignore[operator]
