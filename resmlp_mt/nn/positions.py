"""Positional embeddings that may be added to the tokens' (the paper has none)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LearnedPositions(nn.Embedding):
    """A learned embedding a position; as in fairseq, position p has the number ``pad + 1 + p``."""

    def __init__(self, positions: int, dim: int, pad: int):
        super().__init__(positions + pad + 1, dim, pad)
        self.first = pad + 1
        nn.init.normal_(self.weight, std=dim**-0.5)
        self.weight.data[pad] = 0

    def rows(self, start: int, end: int) -> Tensor:
        """Embeddings of positions ``start`` to ``end``, T x C."""
        return self.weight[self.first + start : self.first + end]


class SinusoidalPositions(nn.Module):
    """Sines and cosines (Vaswani et al. 2017, section 3.5), sines first, numbered as ``LearnedPositions`` are."""

    table: Tensor

    def __init__(self, positions: int, dim: int, pad: int):
        super().__init__()
        self.sizes = positions, dim, pad
        self.register_buffer("table", self.made(), persistent=False)

    def made(self) -> Tensor:
        """The table, N x C."""
        positions, dim, pad = self.sizes
        half = dim // 2
        frequencies = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
        angles = torch.arange(pad + 1, positions + pad + 1, dtype=torch.float).unsqueeze(1) * frequencies
        return F.pad(torch.cat([angles.sin(), angles.cos()], 1), [0, dim % 2])

    def rows(self, start: int, end: int) -> Tensor:
        """Embeddings of positions ``start`` to ``end``, T x C."""
        return self.table[start:end]


POSITIONS = {"none": lambda positions, dim, pad: None, "sinusoidal": SinusoidalPositions, "learned": LearnedPositions}
