"""What step-by-step decoding keeps of the positions so far, and how much of it there may be.

Inputs are kept in a buffer that doubles when full, a row for each beam and position, and for each beam the list of its
rows. A step writes its rows and reads each past row once; when beams change places their lists do, and no row moves.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from resmlp_mt.errors import UserError

IncrementalState = dict[str, dict[str, Tensor | None]]
Past = dict[str, Tensor | None]


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


def append(state: Past | None, x: Tensor, limit: int, capacity: int = 16) -> Past:
    """Write x (S x B x C) behind the positions so far.

    Args:
        state: what this function gave at the step before, None at the first
        limit: N, the side's max positions
        capacity: of the first buffer, in positions

    Returns:
        ``"past"``: the buffer, P x W x C, of which ``"rows"``, B x T, lists those of each beam

    Raises:
        UserError: more positions than the limit
    """
    steps, beams, channels = x.shape
    rows = torch.zeros(beams, 0, dtype=torch.long, device=x.device)
    past = x.new_empty(0, beams, channels)
    if state is None:
        state = torch.jit.annotate(Past, {})
    else:
        past, rows = tensors_of(state)
    start = rows.size(1)
    end, width = start + steps, past.size(1)
    check_length(end, limit, "target")
    if beams > width or 2 * beams <= width:  # a new search, or one of which half is finished
        past = F.embedding(rows, past.view(-1, channels)).transpose(0, 1)
        rows, width = rows_in_order(0, start, beams, beams, x.device), beams
    if end > past.size(0):
        capacity = min(max(2 * past.size(0), max(end, capacity)), limit)
        full, past = past, x.new_empty(capacity, width, channels)
        past[:start] = full[:start]
    past[start:end, :beams] = x.detach()
    state["past"] = past
    state["rows"] = torch.cat([rows, rows_in_order(start, end, beams, width, x.device)], 1)
    return state


def tensors_of(state: Past) -> tuple[Tensor, Tensor]:
    """The buffer and the lists of rows."""
    past, rows = state["past"], state["rows"]
    assert past is not None and rows is not None
    return past, rows


def positions_of(state: Past) -> int:
    """T, the positions so far."""
    return tensors_of(state)[1].size(1)


def whole(state: Past) -> Tensor:
    """All positions so far, T x B x C."""
    past, rows = tensors_of(state)
    return F.embedding(rows, past.view(-1, past.size(2))).transpose(0, 1)


def weighted_sum(state: Past, weights: Tensor) -> Tensor:
    """The positions so far summed by weights, 1 x T, or H x 1 x T for H groups of channels: B x C, without a copy."""
    past, rows = tensors_of(state)
    beams, length, channels = rows.size(0), rows.size(1), past.size(2)
    if weights.dim() == 2:
        weights = weights.expand_as(rows)
        return F.embedding_bag(rows, past.view(-1, channels), per_sample_weights=weights, mode="sum")
    heads = weights.size(0)
    rows = rows.unsqueeze(1) * heads + torch.arange(heads, device=rows.device).unsqueeze(1)
    weights = weights.squeeze(1).expand(beams, heads, length).reshape(beams * heads, length)
    parts = past.view(-1, channels // heads)
    y = F.embedding_bag(rows.view(beams * heads, length), parts, per_sample_weights=weights, mode="sum")
    return y.view(beams, channels)


def reorder_(state: Past | None, new_order: Tensor) -> None:
    """Give each beam the rows of the beam that it continues; ``new_order`` (B') indexes the batch."""
    if state is not None:
        state["rows"] = tensors_of(state)[1].index_select(0, new_order)


def rows_in_order(start: int, end: int, beams: int, width: int, device: torch.device) -> Tensor:
    """Rows of positions ``start`` to ``end`` for each beam, B x T, where a position has ``width`` rows."""
    positions = torch.arange(start, end, device=device) * width
    return positions + torch.arange(beams, device=device).unsqueeze(1)


def keeps_order(new_order: Tensor, rows: int) -> bool:
    """Whether ``new_order`` leaves all rows where they are; on a GPU, which would have to be waited for, not asked."""
    return new_order.is_cpu and new_order.numel() == rows and torch.equal(new_order, torch.arange(rows))
