"""How much of A is a filter: its profile over relative position.

A matrix whose every entry depends on j - i alone (a Toeplitz matrix) is a convolution. The means of the diagonals are
the nearest such matrix; the share of A's variance that they explain says how near.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resmlp_mt.lab.analysis.matrices import MixingMatrix

Array = NDArray[np.float64]


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
