"""The share of weights that are next to nothing (Touvron et al. 2021, figures 3 and B.2)."""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from resmlp_mt.lab.analysis.matrices import Dense, MixingMatrix

BELOW = 0.05
"""Of the largest weight's magnitude: the paper's threshold."""


@dataclass(frozen=True)
class Sparsity:
    """The share of small weights of one matrix (``A``, ``W1``, ``q``, ...); with heads, the mean over theirs."""

    side: str
    layer: int
    matrix: str
    share: float


def share_of_small(weights: Tensor) -> float:
    magnitude = weights.float().abs()
    return magnitude.lt(BELOW * magnitude.max()).double().mean().item()


def of_mixing(mixing: MixingMatrix) -> Sparsity:
    """Of the entries that count: in the decoder those of the lower triangle."""
    shares = [share_of_small(matrix[mixing.counts]) for matrix in mixing.weights]
    return Sparsity(mixing.side, mixing.layer, "A", sum(shares) / len(shares))


def of_dense(matrices: Iterable[Dense]) -> list[Sparsity]:
    return [Sparsity(each.side, each.layer, each.matrix, share_of_small(each.weight)) for each in matrices]
