"""Sentences that are too long raise an error before any arithmetic, with length, limit and the option to raise."""

from torch import Tensor

from resmlp_mt.common.errors import UserError


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


def leading_padding(tokens: Tensor, padding_idx: int, limit: int, side: str) -> Tensor:
    """How much padding is before each sentence of ``tokens`` (B x T): B.

    Padding does not count as length: bucketed batches may be padded beyond the model's positions.

    Raises:
        UserError: a sentence has more than ``limit`` positions
    """
    padding = tokens.eq(padding_idx)
    if tokens.size(1) > limit:  # all right if the rest is padding
        check_length(int((~padding).sum(1).max()), limit, side)
    return padding.long().cumprod(1).sum(1)


def nothing_to_move(shift: Tensor, length: int, limit: int) -> bool:
    """Whether a batch is as the model reads it; always false on a GPU, where asking would wait for the device."""
    return length <= limit and shift.is_cpu and not bool(shift.any())
