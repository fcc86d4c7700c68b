"""Zero at padding; sentences moved to the left edge of their batch and back, as a position's row of A is its index."""

import torch
import torch.nn.functional as F
from torch import Tensor


def zero_padding(x: Tensor, padding: Tensor | None) -> Tensor:
    """``... x T x B x C``, zero where the padding (T x B) is true."""
    return x if padding is None else x.masked_fill(padding.unsqueeze(-1), 0.0)


def roll_rows(x: Tensor, shift: Tensor) -> Tensor:
    """Move row b of ``x`` (B x T or B x T x C) cyclically by ``shift[b]`` places to the left."""
    length = x.size(1)
    index = (torch.arange(length, device=x.device) + shift.unsqueeze(1)) % length
    return x.gather(1, index if x.dim() == 2 else index.unsqueeze(-1).expand_as(x))


def restore_padding(x: Tensor, shift: Tensor | None, length: int) -> Tensor:
    """``B x T' [x C] -> B x T [x C]``, back to where tokens came from by ``shift`` places (B); T is ``length``."""
    if shift is None:
        return x
    missing = length - x.size(1)
    x = F.pad(x, [0, missing] if x.dim() == 2 else [0, 0, 0, missing])
    return roll_rows(x, -shift)
