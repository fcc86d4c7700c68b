"""The laws that are fitted, by Huber's loss on the logarithm of the loss, from a grid of starts.

``L(N, D) = E + A N^-alpha + B D^-beta`` is Hoffmann et al. 2022, ``L(C) = a (b + C)^-alpha + E`` Bachmann et al. 2023.
In ``L(N, D) = ((N_c / N)^(alpha / beta) + D_c / D)^beta`` (Kaplan et al. 2020, equation 1.5) N and D act together: a
larger model gains less where data is short, and there is no E.

Many small problems are solved at once, by the method of Levenberg and Marquardt on arrays with a first dimension of
problems. SciPy solves one at a time: the bootstrap of examples/scaling/tatoeba.json takes 61 s by it and 1.4 s by this.
``scipy.optimize.least_squares`` finds the same constants, but other ends of the intervals of those that the runs do not
identify.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

EXPONENTS = 0.1, 0.3, 0.8
FLOORS = 0.1, 0.5, 0.9  # E of the starts, as shares of the lowest loss
DELTA = 0.01
"""Where Huber's loss turns from the square to the line: residuals of a logarithm of 0.01 are one per cent of a loss."""

ITERATIONS = 200
PRECISE = 1e-9  # the decrease, as a share, at which a problem is solved

Parameters = dict[str, np.ndarray]
"""E, A, alpha, ... each of shape (problems,)."""

Fitted = tuple[Parameters, Parameters]
"""By all points, and by each of the weights (problems x points) that were given."""

Residuals = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Parameters (problems x P) of some problems, and which they are, to residuals (problems x points) and their
derivatives (problems x points x P)."""


def minimize(residuals: Residuals, starts: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parameters (problems x P) and loss of each of many problems.

    They differ in their starts (problems x P) and in the weights of their points (problems x points).
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


def solve(law: Residuals, grid: Any, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Fit a law to problem 0, all points with weight 1, from a grid of starts, and from there to others by weights."""
    starts, first = np.array(grid), np.zeros(1, int)
    points = law(starts[:1], first)[0].shape[1]
    candidates, costs = minimize(lambda theta, _: law(theta, first), starts, np.ones((len(starts), points)))
    found = candidates[[np.argmin(costs)]]
    if weights is None:
        return found, found[:0]
    starts = np.repeat(found, len(weights), 0)
    return found, minimize(lambda theta, which: law(theta, which + 1), starts, weights)[0]


@dataclass(frozen=True)
class Points:
    """N, D and loss of each run of a family."""

    parameters: np.ndarray
    tokens: np.ndarray
    loss: np.ndarray

    @property
    def centers(self) -> tuple[float, float]:
        return float(np.log(self.parameters).mean()), float(np.log(self.tokens).mean())

    @property
    def centered(self) -> tuple[np.ndarray, np.ndarray]:
        n, d = self.centers
        return np.log(self.parameters) - n, np.log(self.tokens) - d


def fit_sizes(points: Points, weights: np.ndarray | None = None) -> Fitted:
    """Fit ``L(N, D)``.

    Solved for are log E, log A, alpha, log B and beta, with N and D over their geometric means.
    """
    lowest, median = points.loss.min(), np.median(points.loss)
    grid = []
    for floor, alpha, beta in product(FLOORS, EXPONENTS, EXPONENTS):
        half = np.log(max(median - floor * lowest, 1e-3) / 2)
        grid.append([np.log(floor * lowest), half, alpha, half, beta])
    one, many = solve(lambda theta, _: _sizes(theta, points), grid, weights)
    return _named_sizes(one, points), _named_sizes(many, points)


def _sizes(theta: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
    x, y = points.centered
    log_e, log_a, alpha, log_b, beta = (theta[:, [each]] for each in range(5))
    of_size, of_data = np.exp(log_a - alpha * x), np.exp(log_b - beta * y)
    floor = np.broadcast_to(np.exp(log_e), of_size.shape)
    whole = floor + of_size + of_data
    slopes = np.stack([floor, of_size, -x * of_size, of_data, -y * of_data], -1)
    return np.log(whole) - np.log(points.loss), slopes / whole[..., None]


def _named_sizes(theta: np.ndarray, points: Points) -> Parameters:
    log_e, log_a, alpha, log_b, beta = theta.T
    n, d = points.centers
    with np.errstate(over="ignore"):  # of a law that is not identified
        a, b = np.exp(log_a + alpha * n), np.exp(log_b + beta * d)
    return {"E": np.exp(log_e), "A": a, "alpha": alpha, "B": b, "beta": beta}


def loss_of_sizes(named: Parameters, parameters: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """``E + A N^-alpha + B D^-beta`` (problems x points)."""
    e, a, alpha, b, beta = (named[name][:, None] for name in ("E", "A", "alpha", "B", "beta"))
    return e + a * parameters**-alpha + b * tokens**-beta


def fit_together(points: Points, weights: np.ndarray | None = None) -> Fitted:
    """Fit the law in which N and D act together to the runs of one family.

    Solved for are alpha log N_c and alpha, beta log D_c and log beta, with N and D over their geometric means.
    """
    half = np.log(np.median(points.loss))
    grid = np.array([[half, alpha, half, np.log(beta)] for alpha, beta in product(EXPONENTS, EXPONENTS)])
    grid[:, [0, 2]] -= np.exp(grid[:, [3]]) * np.log(2)  # so that both together are the loss
    one, many = solve(lambda theta, _: _together(theta, points), grid, weights)
    return _named_together(one, points), _named_together(many, points)


def _together(theta: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
    x, y = points.centered
    of_size, alpha, of_data, log_beta = (theta[:, [each]] for each in range(4))
    beta = np.exp(log_beta)
    u, v = of_size - alpha * x, of_data - beta * y  # logarithms of (N_c / N)^alpha and (D_c / D)^beta
    whole = np.logaddexp(u / beta, v / beta)
    share = np.exp(u / beta - whole)
    of_beta = beta * (whole - (1 - share) * y) - share * u - (1 - share) * v
    slopes = np.stack([share, -share * x, 1 - share, of_beta], -1)
    return beta * whole - np.log(points.loss), slopes


def _named_together(theta: np.ndarray, points: Points) -> Parameters:
    of_size, alpha, of_data, log_beta = theta.T
    beta = np.exp(log_beta)
    n, d = points.centers
    with np.errstate(over="ignore", divide="ignore"):  # of a law that is not identified
        sizes, amounts = np.exp(of_size / alpha + n), np.exp(of_data / beta + d)
    return {"N_c": sizes, "alpha": alpha, "D_c": amounts, "beta": beta}


def loss_together(named: Parameters, parameters: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """``((N_c / N)^(alpha / beta) + D_c / D)^beta`` (problems x points)."""
    sizes, alpha, amounts, beta = (named[name][:, None] for name in ("N_c", "alpha", "D_c", "beta"))
    return ((sizes / parameters) ** (alpha / beta) + amounts / tokens) ** beta


def fit_compute(compute: np.ndarray, loss: np.ndarray, weights: np.ndarray) -> Fitted:
    """Fit ``L(C)`` to losses, those of all points and then of each of the weights (1 + problems x points).

    Solved for are log E, log a, alpha, log b, with C over its geometric mean. A weight is 0 where there is no point.
    """
    center = float(np.exp(np.log(compute).mean()))
    x = compute / center
    lowest, middle = loss[0].min(), np.median(loss[0])
    grid = [
        [np.log(lowest * floor), np.log(middle - lowest * floor), alpha, np.log(shift)]
        for floor, alpha, shift in product(FLOORS, EXPONENTS, (x.min() / 10, x.min(), x.max()))
    ]

    def law(theta: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _compute(theta, x, loss[which])

    nearest, _ = solve(law, grid)
    one, many = solve(law, nearest, weights)  # from there again, for a few digits more
    return _named_compute(one, center), _named_compute(many, center)


def _compute(theta: np.ndarray, x: np.ndarray, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    log_e, log_a, alpha, log_b = (theta[:, [each]] for each in range(4))
    shifted = np.exp(log_b) + x
    falling, floor = np.exp(log_a) * shifted**-alpha, np.exp(log_e)
    whole = falling + floor
    slopes = [floor, falling, -falling * np.log(shifted), -falling * alpha * np.exp(log_b) / shifted]
    return np.log(whole) - np.log(loss), np.stack([each / whole for each in slopes], -1)


def _named_compute(theta: np.ndarray, center: float) -> Parameters:
    log_e, log_a, alpha, log_b = theta.T
    with np.errstate(over="ignore"):
        return {"E": np.exp(log_e), "a": np.exp(log_a) * center**alpha, "alpha": alpha, "b": np.exp(log_b) * center}


def loss_of_compute(named: Parameters, compute: np.ndarray) -> np.ndarray:
    """``a (b + C)^-alpha + E`` (problems x points)."""
    e, a, alpha, b = (named[name][:, None] for name in ("E", "a", "alpha", "b"))
    return a * (b + compute) ** -alpha + e


class Law(NamedTuple):
    """A law of N and D for the runs of one family, and how many constants it has."""

    fit: Callable[..., Fitted]  # to points, and to them with each of the weights if there are any
    loss: Callable[[Parameters, np.ndarray, np.ndarray], np.ndarray]  # by constants, N and D (problems x points)
    constants: int


SIZES = Law(fit_sizes, loss_of_sizes, 5)
TOGETHER = Law(fit_together, loss_together, 4)
