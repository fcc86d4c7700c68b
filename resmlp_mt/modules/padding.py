"""Sentences moved to the left edge of their batch, and back.

A position's row of A is its index, so a sentence's first real token must come first; fairseq left-pads sources by
default. Padding must not count as length either: bucketed batches may be padded beyond the model's positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from resmlp_mt.modules.token_mixing import check_length


def roll_rows(x: Tensor, shift: Tensor) -> Tensor:
    """Move row b of ``x`` (B x T or B x T x C) cyclically by ``shift[b]`` places to the left."""
    length = x.size(1)
    index = (torch.arange(length, device=x.device) + shift.unsqueeze(1)) % length
    return x.gather(1, index if x.dim() == 2 else index.unsqueeze(-1).expand_as(x))


@dataclass(frozen=True)
class Placement:
    """Where the sentences of a batch of ``length`` columns lay.

    Args:
        length: T of the batch as it came
        limit: N, the most columns that the model takes
        shift: B, the padding before each sentence, or None if there is none in the batch
    """

    length: int
    limit: int
    shift: Tensor | None

    @staticmethod
    def of(tokens: Tensor, padding_idx: int, limit: int, side: str) -> "Placement":
        """Find the placement of ``tokens`` (B x T).

        Raises:
            UserError: a sentence has more than ``limit`` positions
        """
        real = tokens.ne(padding_idx)
        if tokens.size(1) > limit:  # all right if the rest is padding
            check_length(int(real.sum(1).max()), limit, side)
        left_padded = not bool(real[:, 0].all())
        return Placement(tokens.size(1), limit, (~real).long().cumprod(1).sum(1) if left_padded else None)

    @property
    def at_left(self) -> bool:
        """Nothing needs to be moved."""
        return self.shift is None and self.length <= self.limit

    def to_left(self, x: Tensor) -> Tensor:
        """``B x T [x C] -> B x T' [x C]``, first real position first, at most N columns."""
        return (x if self.shift is None else roll_rows(x, self.shift))[:, : self.limit]

    def back(self, x: Tensor, fill: float = 0.0) -> Tensor:
        """``B x T' [x C] -> B x T [x C]``, every position where its token came from."""
        missing = self.length - x.size(1)
        x = F.pad(x, (0, missing) if x.dim() == 2 else (0, 0, 0, missing), value=fill)
        return x if self.shift is None else roll_rows(x, -self.shift)

    def states_back(self, states: Sequence[Tensor]) -> list[Tensor]:
        """``back`` for a list of T' x B x C."""
        return [self.back(state.transpose(0, 1)).transpose(0, 1) for state in states]
