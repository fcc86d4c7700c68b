"""The linear layer over positions that stands where a Transformer has self-attention."""

from typing import Final

import torch
import torch.nn.functional as F
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
        for name in "scale", "row_sum_scale", "offset":  # of a folded mixing
            self.register_buffer(name, torch.zeros(0), persistent=False)

    def rows(self, start: int, end: int) -> Tensor:
        """Rows ``start`` to ``end`` of ``A[:end,:end]``."""
        return self.weight[start:end, :end]

    def readable(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``, zero at padded positions, which are true in ``padding`` (T x B)."""
        return x if padding is None else x.masked_fill(padding.unsqueeze(-1), 0.0)

    def forward(
        self, x: Tensor, padding: Tensor | None = None, incremental_state: IncrementalState | None = None
    ) -> Tensor:
        """``T x B x C -> T x B x C``; x is ``readable``. The padding (T x B) matters to a folded mixing alone."""
        return self.mix(x, 0, padding)

    def mix(self, x: Tensor, start: int, padding: Tensor | None = None) -> Tensor:
        """Positions from ``start`` on of the mixture of all positions of x."""
        end, batch, channels = x.shape
        rows, x = self.rows(start, end), x.reshape(end, batch * channels)
        if not self.folded:
            return torch.addmm(self.bias[start:end, None], rows, x).view(end - start, batch, channels)
        return self.finish(torch.mm(rows, x).view(end - start, batch, channels), rows, start, padding)

    def finish(self, mixed: Tensor, rows: Tensor, start: int, padding: Tensor | None = None) -> Tensor:
        """Add to ``A x`` (T x B x C) what is added, and scale it if folded; ``rows`` are those of A."""
        end = start + mixed.size(0)
        if not self.folded:
            return mixed + self.bias[start:end, None, None]
        row_sums = rows.sum(1, keepdim=True) if padding is None else rows @ (~padding).to(rows.dtype)
        offset = torch.addcmul(self.offset[start:end, None], row_sums.unsqueeze(-1), self.row_sum_scale)
        return torch.addcmul(offset, mixed, self.scale)

    def fold_(self, pre: Aff, post: Aff) -> None:
        """Take in the Aff before and the Aff behind: scaling channels commutes with mixing positions.

        ``Aff2(A Aff1(x) + b) = (alpha2 alpha1) (A x) + rowsum(A) (x) (alpha2 beta1) + b (x) alpha2 + beta2``, where
        rowsum(A) runs over the real positions of each sentence.
        """
        with torch.no_grad():
            alpha1, beta1 = pre.alpha.double(), pre.beta.double()
            alpha2, beta2 = post.alpha.double(), post.beta.double()
            dtype = self.weight.dtype
            self.scale = (alpha2 * alpha1).to(dtype)
            self.row_sum_scale = (alpha2 * beta1).to(dtype)
            self.offset = torch.addcmul(beta2, self.bias.double()[:, None], alpha2).to(dtype)
        self.folded = True

    def extra_repr(self) -> str:
        return f"{self.max_positions}"


class CausalTokenMixing(FairseqIncrementalState, TokenMixing):
    """Token mixing with a lower-triangular A: position t reads positions 1 to t only (section 2).

    While decoding step by step it keeps its past inputs in a buffer that doubles when full, a row for each beam and
    position, and for each beam the list of its rows. A step writes its rows and reads each past row once; when beams
    change places their lists do, and no row moves.
    """

    INITIAL_CAPACITY: Final[int] = 16

    def __init__(self, max_positions: int):
        super().__init__(max_positions)
        with torch.no_grad():
            self.weight.tril_()  # entries above the diagonal are never read and never get a gradient

    def rows(self, start: int, end: int) -> Tensor:
        """Rows ``start`` to ``end`` of the lower triangle of ``A[:end,:end]``."""
        rows = self.weight[start:end, :end]
        return rows if start + 1 == end else rows.tril(start)

    def readable(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """x itself: no position reads the padding behind its sentence."""
        return x

    def forward(
        self, x: Tensor, padding: Tensor | None = None, incremental_state: IncrementalState | None = None
    ) -> Tensor:
        """``T x B x C -> T x B x C``; with a state, x holds the positions that follow those of the calls before.

        Raises:
            UserError: more positions than the matrix has
        """
        if incremental_state is None:
            return self.mix(x, 0)
        past, rows = self._append(incremental_state, x)
        if x.size(0) > 1:
            return self.mix(F.embedding(rows, past).transpose(0, 1), rows.size(1) - x.size(0))
        weights = self.rows(rows.size(1) - 1, rows.size(1))
        mixed = F.embedding_bag(rows, past, per_sample_weights=weights.expand_as(rows), mode="sum")
        return self.finish(mixed.unsqueeze(0), weights, rows.size(1) - 1)

    def _append(self, incremental_state: IncrementalState, x: Tensor) -> tuple[Tensor, Tensor]:
        """Write x behind the positions so far.

        Returns:
            all rows that were written, R x C, and which of them are each beam's, B x T
        """
        state = self.get_incremental_state(incremental_state, "past")  # type: ignore[operator]
        steps, beams, channels = x.shape
        rows = torch.zeros(beams, 0, dtype=torch.long, device=x.device)
        past = x.new_empty(0, beams, channels)
        if state is None:
            state = torch.jit.annotate(dict[str, Tensor | None], {})
        else:
            kept, lists = state["past"], state["rows"]
            assert kept is not None and lists is not None
            past, rows = kept, lists
        start = rows.size(1)
        end, width = start + steps, past.size(1)
        check_length(end, self.max_positions, "target")
        if beams > width or 2 * beams <= width:  # a new search, or one of which half is finished
            past = F.embedding(rows, past.view(-1, channels)).transpose(0, 1)
            rows, width = rows_in_order(0, start, beams, beams, x.device), beams
        if end > past.size(0):
            capacity = min(max(2 * past.size(0), max(end, self.INITIAL_CAPACITY)), self.max_positions)
            full, past = past, x.new_empty(capacity, width, channels)
            past[:start] = full[:start]
        past[start:end, :beams] = x.detach()
        rows = torch.cat([rows, rows_in_order(start, end, beams, width, x.device)], 1)
        state["past"], state["rows"] = past, rows
        self.set_incremental_state(incremental_state, "past", state)  # type: ignore[operator]
        return past.view(-1, channels), rows

    @torch.jit.export
    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> None:
        """Give each beam the past of the beam that it continues; ``new_order`` (B') indexes the batch."""
        state = self.get_incremental_state(incremental_state, "past")  # type: ignore[operator]
        if state is not None:
            rows = state["rows"]
            assert rows is not None
            state["rows"] = rows.index_select(0, new_order)


def rows_in_order(start: int, end: int, beams: int, width: int, device: torch.device) -> Tensor:
    """Rows of positions ``start`` to ``end`` for each beam, B x T, where a position has ``width`` rows."""
    positions = torch.arange(start, end, device=device) * width
    return positions + torch.arange(beams, device=device).unsqueeze(1)


def keeps_order(new_order: Tensor, rows: int) -> bool:
    """Whether ``new_order`` leaves all rows where they are; on a GPU, which would have to be waited for, not asked."""
    return new_order.is_cpu and new_order.numel() == rows and torch.equal(new_order, torch.arange(rows))
