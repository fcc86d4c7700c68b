"""Positions of tokens: padding, moving sentences to the left edge of a batch, positional embeddings."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def zero_padding(x: Tensor, padding: Tensor | None) -> Tensor:
    """Return ``x``, ``... x T x B x C``, with zeros where ``padding`` (T x B) is true."""
    return x if padding is None else x.masked_fill(padding.unsqueeze(-1), 0.0)


def roll_rows(x: Tensor, shift: Tensor) -> Tensor:
    """Move row b of ``x`` (B x T or B x T x C) cyclically by ``shift[b]`` places to the left."""
    length = x.size(1)
    index = (torch.arange(length, device=x.device) + shift.unsqueeze(1)) % length
    return x.gather(1, index if x.dim() == 2 else index.unsqueeze(-1).expand_as(x))


def restore_padding(x: Tensor, shift: Tensor | None, length: int) -> Tensor:
    """Undo a shift to the left by ``shift`` places (B), ``B x T' x C -> B x T x C``; T is ``length``."""
    return x if shift is None else roll_rows(F.pad(x, [0, 0, 0, length - x.size(1)]), -shift)


class LearnedPositions(nn.Embedding):
    """A learned embedding for each position; as in fairseq, position p has the number ``pad + 1 + p``."""

    def __init__(self, positions: int, dim: int, pad: int):
        super().__init__(positions + pad + 1, dim, pad)
        self.first = pad + 1
        nn.init.normal_(self.weight, std=dim**-0.5)
        self.weight.data[pad] = 0

    def rows(self, start: int, end: int) -> Tensor:
        """Embeddings of positions ``start`` to ``end``, T x C."""
        return self.weight[self.first + start : self.first + end]


class SinusoidalPositions(nn.Module):
    """Sinusoidal embeddings (Vaswani et al. 2017, section 3.5), sines first, numbered as in ``LearnedPositions``."""

    table: Tensor

    def __init__(self, positions: int, dim: int, pad: int):
        super().__init__()
        self.sizes = positions, dim, pad
        self.register_buffer("table", self.made(), persistent=False)

    def made(self) -> Tensor:
        """Return the table of embeddings, N x C."""
        positions, dim, pad = self.sizes
        half = dim // 2
        frequencies = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / max(half - 1, 1)))
        angles = torch.arange(pad + 1, positions + pad + 1, dtype=torch.float).unsqueeze(1) * frequencies
        return F.pad(torch.cat([angles.sin(), angles.cos()], 1), [0, dim % 2])

    def rows(self, start: int, end: int) -> Tensor:
        """Embeddings of positions ``start`` to ``end``, T x C."""
        return self.table[start:end]


POSITIONS = {"none": lambda positions, dim, pad: None, "sinusoidal": SinusoidalPositions, "learned": LearnedPositions}
