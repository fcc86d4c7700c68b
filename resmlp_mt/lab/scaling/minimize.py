"""Least squares with Huber's loss, of many small problems at once.

SciPy solves one problem at a time: the bootstrap of examples/scaling/tatoeba.json takes 61 s by it and 1.4 s by this,
the method of Levenberg and Marquardt on arrays with a first dimension of problems. ``scipy.optimize.least_squares``
finds the same constants, but other ends of the intervals of those that the runs do not identify.
"""

from collections.abc import Callable

import numpy as np

Residuals = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Parameters (problems x P) of some problems, and which they are, to residuals (problems x points) and their
derivatives (problems x points x P)."""

DELTA = 0.01
"""Where Huber's loss turns from the square to the line: residuals of a logarithm of 0.01 are one per cent of a loss."""

ITERATIONS = 200
PRECISE = 1e-9
"""The decrease, as a share, at which a problem is solved."""


def minimize(residuals: Residuals, starts: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve problems that differ in their starts, and in the weights of their points.

    Args:
        starts: problems x P
        weights: of the points (problems x points); 0 leaves a point out

    Returns:
        parameters (problems x P), and the loss of each problem
    """
    best = np.array(starts, float)
    going = np.arange(len(best))
    damping = np.full(len(best), 1e-2)
    left, slopes = residuals(best, going)
    cost = _huber(left, weights)
    for _ in range(ITERATIONS):
        now, r, j, w = best[going], left[going], slopes[going], weights[going]
        weighted = j * (w * np.minimum(1, DELTA / np.maximum(np.abs(r), DELTA)))[..., None]
        normal = np.swapaxes(weighted, 1, 2) @ j
        diagonal = np.einsum("bpp->bp", normal)
        normal += np.eye(best.shape[1]) * (damping[going, None] * diagonal + 1e-12)[:, None, :]
        step = np.linalg.solve(normal, np.einsum("bnp,bn->bp", weighted, r)[..., None])[..., 0]
        tried = now - np.clip(step, -1, 1)
        r, j = residuals(tried, going)
        after = _huber(r, w)
        better = after < cost[going]
        solved = better & (cost[going] - after <= PRECISE * after) | (damping[going] > 1e9)
        found = going[better]
        best[found], left[found], slopes[found], cost[found] = tried[better], r[better], j[better], after[better]
        damping[going] *= np.where(better, 0.2, 4)
        going = going[~solved]
        if not going.size:
            break
    return best, cost


def _huber(left: np.ndarray, weights: np.ndarray) -> np.ndarray:
    size = np.abs(left)
    return (weights * np.where(size <= DELTA, size**2 / 2, DELTA * (size - DELTA / 2))).sum(-1)
