"""The linear layer over positions that stands where a Transformer has self-attention."""

from collections.abc import Callable
from typing import Any

import torch
from fairseq.incremental_decoding_utils import FairseqIncrementalState
from torch import Tensor, nn

from resmlp_mt.errors import UserError
from resmlp_mt.modules.affine import Aff

IncrementalState = dict[str, dict[str, Tensor | None]]


def check_length(length: int, limit: int, side: str) -> None:
    """Refuse a sentence with more positions than A has rows.

    Args:
        length: positions of the longest sentence, ``</s>`` included
        limit: N, the side's max positions
        side: ``"source"`` or ``"target"``

    Raises:
        UserError: with the length, the limit and the option that raises it
    """
    if length > limit:
        raise UserError(
            f"a {side} sentence has {length} positions (subwords and </s>) but the model has {limit}: "
            f"split or drop the sentence, or train with --max-{side}-positions {length} or more"
        )


class TokenMixing(nn.Module):
    """``A[:T,:T] x + b[:T]`` over the positions of a sentence (Touvron et al. 2021, equation 2).

    In T x B x C this is one matrix product, ``(T x T) @ (T x BC)``, without a transpose or a copy.

    Args:
        max_positions: N; A is N x N, b has N entries
    """

    scale: Tensor
    row_sum_scale: Tensor
    offset: Tensor

    def __init__(self, max_positions: int):
        super().__init__()
        self.max_positions = max_positions
        self.weight = nn.Parameter(torch.empty(max_positions, max_positions))
        self.bias = nn.Parameter(torch.zeros(max_positions))
        self.folded = False
        nn.init.uniform_(self.weight, -(max_positions**-0.5), max_positions**-0.5)

    def rows(self, start: int, end: int) -> Tensor:
        """Rows ``start`` to ``end`` of ``A[:end,:end]``."""
        return self.weight[start:end, :end]

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; padded positions, true in ``padding`` (T x B), are read as zero."""
        if padding is not None:
            x = x.masked_fill(padding.unsqueeze(-1), 0.0)
        return self._mix(x, 0, padding)

    def _mix(self, x: Tensor, start: int, padding: Tensor | None = None) -> Tensor:
        """Positions from ``start`` on of the mixture of all positions of x."""
        end, batch, channels = x.shape
        rows, bias = self.rows(start, end), self.bias[start:end, None]
        x = x.reshape(end, batch * channels)
        if not self.folded:
            return torch.addmm(bias, rows, x).view(-1, batch, channels)
        row_sums = rows.sum(1, keepdim=True) if padding is None else rows @ (~padding).to(rows)
        offset = torch.addcmul(self.offset[start:end, None], row_sums.unsqueeze(-1), self.row_sum_scale)
        return torch.addcmul(offset, torch.mm(rows, x).view(-1, batch, channels), self.scale)

    def fold_(self, pre: Aff, post: Aff) -> None:
        """Take in the Aff before and the Aff behind: scaling channels commutes with mixing positions.

        ``Aff2(A Aff1(x) + b) = (alpha2 alpha1) (A x) + rowsum(A) (x) (alpha2 beta1) + b (x) alpha2 + beta2``, where
        rowsum(A) runs over the real positions of each sentence.
        """
        with torch.no_grad():
            alpha1, beta1 = pre.alpha.double(), pre.beta.double()
            alpha2, beta2 = post.alpha.double(), post.beta.double()
            dtype = self.weight.dtype
            self.register_buffer("scale", (alpha2 * alpha1).to(dtype))
            self.register_buffer("row_sum_scale", (alpha2 * beta1).to(dtype))
            self.register_buffer("offset", torch.addcmul(beta2, self.bias.double()[:, None], alpha2).to(dtype))
        self.folded = True

    def extra_repr(self) -> str:
        return f"{self.max_positions}"


class CausalTokenMixing(FairseqIncrementalState, TokenMixing):
    """Token mixing with a lower-triangular A: position t reads positions 1 to t only (section 2).

    While decoding step by step it keeps its past inputs, and nothing else, in a buffer that doubles when full; a step
    writes one row of it and reads each past row once. Beams that change places go through a second buffer.
    """

    INITIAL_CAPACITY = 16
    get_incremental_state: Callable[..., Any]
    set_incremental_state: Callable[..., Any]

    def __init__(self, max_positions: int):
        super().__init__(max_positions)
        with torch.no_grad():
            self.weight.tril_()  # entries above the diagonal are never read and never get a gradient

    def rows(self, start: int, end: int) -> Tensor:
        """Rows ``start`` to ``end`` of the lower triangle of ``A[:end,:end]``."""
        return super().rows(start, end).tril(start)

    def forward(  # type: ignore[override]  # no position reads the padding behind its sentence, but it reads the past
        self, x: Tensor, incremental_state: IncrementalState | None = None
    ) -> Tensor:
        """``T x B x C -> T x B x C``; with a state, x holds the positions that follow those of the calls before.

        Raises:
            UserError: more positions than the matrix has
        """
        if incremental_state is None:
            return self._mix(x, 0)
        past = self._append(incremental_state, x)
        return self._mix(past, past.size(0) - x.size(0))

    def _append(self, incremental_state: IncrementalState, x: Tensor) -> Tensor:
        """Write x behind the positions so far and return all of them."""
        state = self.get_incremental_state(incremental_state, "past") or {}
        start = int(state["length"]) if state else 0
        end = start + x.size(0)
        check_length(end, self.max_positions, "target")
        past = state["past"] if state else x.new_empty(0, *x.shape[1:])
        if end > past.size(0):
            capacity = min(max(2 * past.size(0), end, self.INITIAL_CAPACITY), self.max_positions)
            past, full = x.new_empty(capacity, *x.shape[1:]), past
            past[:start] = full[:start]
        past[start:end] = x.detach()
        self.set_incremental_state(incremental_state, "past", {**state, "past": past, "length": torch.tensor(end)})
        return past[:end]

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> None:
        """Give each beam the past of the beam that it continues; ``new_order`` (B') indexes the batch."""
        state = self.get_incremental_state(incremental_state, "past")
        if state is None or keeps_order(new_order, state["past"].size(1)):
            return
        length, past, spare = int(state["length"]), state["past"], state.get("spare")
        if spare is None or spare.shape != (past.size(0), new_order.numel(), past.size(2)):
            spare = past.new_empty(past.size(0), new_order.numel(), past.size(2))
        torch.index_select(past[:length], 1, new_order, out=spare[:length])
        self.set_incremental_state(incremental_state, "past", {**state, "past": spare, "spare": past})


def keeps_order(new_order: Tensor, rows: int) -> bool:
    """Whether ``new_order`` leaves all rows where they are; on a GPU, which would have to be waited for, not asked."""
    return new_order.is_cpu and new_order.numel() == rows and torch.equal(new_order, torch.arange(rows))
