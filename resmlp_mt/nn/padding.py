"""Sentences moved to the left edge of their batch, and back.

A position's row of A is its index, so a sentence's first real token must come first; fairseq left-pads sources by
default.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def roll_rows(x: Tensor, shift: Tensor) -> Tensor:
    """Move row b of ``x`` (B x T or B x T x C) cyclically by ``shift[b]`` places to the left."""
    length = x.size(1)
    index = (torch.arange(length, device=x.device) + shift.unsqueeze(1)) % length
    return x.gather(1, index if x.dim() == 2 else index.unsqueeze(-1).expand_as(x))


def to_left(x: Tensor, shift: Tensor, limit: int) -> Tensor:
    """``B x T [x C] -> B x T' [x C]``, first real position first, at most ``limit`` columns."""
    return roll_rows(x, shift)[:, :limit]


def back(x: Tensor, shift: Tensor, length: int, fill: float = 0.0) -> Tensor:
    """``B x T' [x C] -> B x T [x C]``, every position where its token came from; T is ``length``."""
    missing = length - x.size(1)
    x = F.pad(x, [0, missing] if x.dim() == 2 else [0, 0, 0, missing], value=fill)
    return roll_rows(x, -shift)


def states_back(states: list[Tensor], shift: Tensor, length: int) -> list[Tensor]:
    """``back`` for a list of T' x B x C."""
    return [back(state.transpose(0, 1), shift, length).transpose(0, 1) for state in states]
