"""The matrices of a model, A above all: how near each is to a filter, and how many of its weights are small.

An A whose every entry depends on j - i alone (a Toeplitz matrix) is a convolution. The means of the diagonals are the
nearest such matrix; the share of A's variance that they explain says how near.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from resmlp_mt.fairseq_plugin import ResMLPTransformerModel
from resmlp_mt.nn import TokenMixing

SIDES = "encoder", "decoder"

BELOW = 0.05
"""Of the largest weight's magnitude: small, as in figures 3 and B.2 of Touvron et al. 2021."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MixingMatrix:
    """A of one layer.

    ``weights`` are H x T x T, one matrix for each head (H = 1: one for all channels), and zero where a causal A is not
    read; ``layer`` counts from 1; ``key`` is that of its module in the model.
    """

    side: str
    layer: int
    key: str
    weights: Tensor

    @property
    def name(self) -> str:
        return f"{self.side} {self.layer}"

    @property
    def causal(self) -> bool:
        return self.side == "decoder"

    @property
    def length(self) -> int:
        return self.weights.size(-1)

    @property
    def counts(self) -> Tensor:
        """T x T, true where an entry is part of A: everywhere, or in the lower triangle."""
        everywhere = torch.ones(self.length, self.length, dtype=torch.bool)
        return everywhere.tril() if self.causal else everywhere

    def up_to(self, length: int) -> "MixingMatrix":
        """The first positions alone."""
        return replace(self, weights=self.weights[:, :length, :length])


def layers_of(model: ResMLPTransformerModel) -> Iterator[tuple[str, int, Any]]:
    """Side, number and module of each layer."""
    for side in SIDES:
        for number, layer in enumerate(getattr(model, side).layers, start=1):
            yield side, number, layer


def matrix(mixing: TokenMixing) -> Tensor:
    """H x N x N: A as a mixing applies it, all of its rows."""
    rows = mixing.rows(0, mixing.max_positions).detach()
    return rows.view(-1, *rows.shape[-2:])


def mixing_matrices(model: ResMLPTransformerModel) -> list[MixingMatrix]:
    """Every A of a model, the encoder's first; none of a side whose token mixing is no matrix over positions."""
    return [
        MixingMatrix(side, number, f"{side}.layers.{number - 1}.mixing.mixing", matrix(layer.mixing.mixing))
        for side, number, layer in layers_of(model)
        if layer.mixing is not None and isinstance(layer.mixing.mixing, TokenMixing)
    ]


@dataclass(frozen=True)
class Profile:
    """One matrix over relative position.

    Attributes:
        offsets: j - i, of each diagonal; up to 0 for a causal A
        mean, spread: of each diagonal, and its standard deviation
        explained: share of the variance of all entries that the diagonals' means explain, from 0 to 1
        by_chance: the share to expect of a matrix of independent random entries
    """

    offsets: NDArray[np.int64]
    mean: Array
    spread: Array
    explained: float
    by_chance: float


def profiles(mixing: MixingMatrix) -> list[Profile]:
    """The profile of each head."""
    return [_profile(matrix.double().numpy(), mixing.causal) for matrix in mixing.weights]


def _profile(matrix: Array, causal: bool) -> Profile:
    length = len(matrix)
    offsets = np.arange(1 - length, 1 if causal else length)
    diagonals = [np.diagonal(matrix, offset) for offset in offsets]
    entries = np.concatenate(diagonals)
    total = np.square(entries - entries.mean()).sum()
    left = sum(np.square(diagonal - diagonal.mean()).sum() for diagonal in diagonals)
    return Profile(
        offsets,
        np.array([diagonal.mean() for diagonal in diagonals]),
        np.array([diagonal.std() for diagonal in diagonals]),
        float(1 - left / total) if total > 0 else 1.0,
        (len(diagonals) - 1) / max(len(entries) - 1, 1),
    )


@dataclass(frozen=True)
class Sparsity:
    """The share of small weights of one matrix.

    ``matrix`` is ``A``, with heads the mean over theirs, ``W1`` or ``W2`` of the MLP, or ``q``, ``k``, ``v`` or ``out``
    of the cross-attention.
    """

    side: str
    layer: int
    matrix: str
    share: float


def share_of_small(weights: Tensor) -> float:
    magnitude = weights.float().abs()
    return magnitude.lt(BELOW * magnitude.max()).double().mean().item()


def sparsity_of_mixing(mixing: MixingMatrix) -> Sparsity:
    """Of the entries that count: in the decoder those of the lower triangle."""
    shares = [share_of_small(matrix[mixing.counts]) for matrix in mixing.weights]
    return Sparsity(mixing.side, mixing.layer, "A", sum(shares) / len(shares))


def sparsity_over_channels(model: ResMLPTransformerModel) -> list[Sparsity]:
    """Of both matrices of every MLP, and of the cross-attention's, layer by layer."""
    found = []
    for side, number, layer in layers_of(model):
        matrices = {"W1": layer.mlp.fc1, "W2": layer.mlp.fc2}
        if side == "decoder" and layer.cross_attention is not None:
            attention = layer.cross_attention.attention
            matrices |= {name: getattr(attention, f"{name}_proj") for name in ("q", "k", "v", "out")}
        found += [Sparsity(side, number, name, share_of_small(each.weight)) for name, each in matrices.items()]
    return found
