"""The laws that are fitted, by Huber's loss on the logarithm of the loss, from a grid of starts.

``L(N, D) = E + A N^-alpha + B D^-beta`` is Hoffmann et al. 2022, ``L(C) = a (b + C)^-alpha + E`` Bachmann et al. 2023.
In ``L(N, D) = ((N_c / N)^(alpha / beta) + D_c / D)^beta`` (Kaplan et al. 2020, equation 1.5) N and D act together: a
larger model gains less where data is short, and there is no E.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from resmlp_mt.lab.scaling.minimize import Residuals, minimize

EXPONENTS = 0.1, 0.3, 0.8
FLOORS = 0.1, 0.5, 0.9
"""E of the starts, as shares of the lowest loss."""

Parameters = dict[str, np.ndarray]
"""E, A, alpha, ... each of shape (problems,)."""


@dataclass(frozen=True)
class Points:
    """What a law of N and D is fitted to.

    Attributes:
        parameters: N of each run
        tokens: D of each run
        loss: of each run
        family: a number from 0 for each run; families share nothing but, if asked for, E
    """

    parameters: np.ndarray
    tokens: np.ndarray
    loss: np.ndarray
    family: np.ndarray


def fit_sizes(points: Points, weights: np.ndarray | None = None, starts: np.ndarray | None = None) -> np.ndarray:
    """Fit ``L(N, D)``; families have one E, and each its own A, alpha, B and beta.

    Args:
        weights: of the runs (problems x runs), for many problems at once; one problem without
        starts: 1 x P as an earlier fit returned it; without, a grid of them

    Returns:
        problems x (1 + 4 families): log E, and of each family log A and alpha, log B and beta, where N and D are over
        their geometric means over all runs: ``named_sizes`` undoes that
    """
    return solve(lambda theta, _: _sizes(theta, points), _starts(points), weights, starts)


def solve(law: Residuals, grid: np.ndarray, weights: np.ndarray | None, starts: np.ndarray | None) -> np.ndarray:
    """Fit a law to the points of a first problem from a grid, or to those of several from ``starts``."""
    if starts is None:
        one = np.zeros(1, int)
        points = law(grid[:1], one)[0].shape[1]
        candidates, costs = minimize(lambda theta, _: law(theta, one), grid, np.ones((len(grid), points)))
        starts = candidates[[np.argmin(costs)]]
    return starts if weights is None else minimize(law, np.repeat(starts, len(weights), 0), weights)[0]


def named_sizes(theta: np.ndarray, points: Points, family: int) -> Parameters:
    """E, A, alpha, B and beta of a family, by what ``fit_sizes`` returned."""
    log_a, alpha, log_b, beta = theta[:, 1 + 4 * family : 5 + 4 * family].T
    n, d = centers(points)
    with np.errstate(over="ignore"):  # of a law that is not identified
        a, b = np.exp(log_a + alpha * n), np.exp(log_b + beta * d)
    return {"E": np.exp(theta[:, 0]), "A": a, "alpha": alpha, "B": b, "beta": beta}


def loss_of_sizes(named: Parameters, parameters: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """``E + A N^-alpha + B D^-beta`` (problems x points)."""
    e, a, alpha, b, beta = (named[name][:, None] for name in ("E", "A", "alpha", "B", "beta"))
    return e + a * parameters**-alpha + b * tokens**-beta


def fit_compute(
    compute: np.ndarray, loss: np.ndarray, weights: np.ndarray | None = None, starts: np.ndarray | None = None
) -> np.ndarray:
    """Fit ``L(C)``.

    Args:
        compute: points
        loss: problems x points
        weights: problems x points; 0 where a problem has no such point
        starts: as for ``fit_sizes``

    Returns:
        problems x 4: log E, log a, alpha, log b, where C is over its geometric mean: ``named_compute`` undoes that
    """
    x = compute / _center(compute)
    lowest, middle = loss[0].min(), np.median(loss[0])
    grid = [
        [np.log(lowest * floor), np.log(middle - lowest * floor), alpha, np.log(shift)]
        for floor, alpha, shift in product(FLOORS, EXPONENTS, (x.min() / 10, x.min(), x.max()))
    ]
    weights = np.ones_like(loss) if weights is None else weights
    return solve(lambda theta, which: _compute(theta, x, loss[which]), np.array(grid), weights, starts)


def named_compute(theta: np.ndarray, compute: np.ndarray) -> Parameters:
    """E, a, alpha and b, by what ``fit_compute`` returned."""
    log_e, log_a, alpha, log_b = theta.T
    center = _center(compute)
    with np.errstate(over="ignore"):
        return {"E": np.exp(log_e), "a": np.exp(log_a) * center**alpha, "alpha": alpha, "b": np.exp(log_b) * center}


def loss_of_compute(named: Parameters, compute: np.ndarray) -> np.ndarray:
    """``a (b + C)^-alpha + E`` (problems x points)."""
    e, a, alpha, b = (named[name][:, None] for name in ("E", "a", "alpha", "b"))
    return a * (b + compute) ** -alpha + e


def _center(values: np.ndarray) -> float:
    return float(np.exp(np.log(values).mean()))


def centers(points: Points) -> tuple[float, float]:
    """Means of log N and log D."""
    return float(np.log(points.parameters).mean()), float(np.log(points.tokens).mean())


def _sizes(theta: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
    n, d = centers(points)
    x, y = np.log(points.parameters) - n, np.log(points.tokens) - d
    first = 1 + 4 * points.family  # of the parameters of each run's family
    floor = np.exp(theta[:, :1])
    of_size = np.exp(theta[:, first] - theta[:, first + 1] * x)
    of_data = np.exp(theta[:, first + 2] - theta[:, first + 3] * y)
    whole = floor + of_size + of_data
    slopes = np.zeros((*whole.shape, theta.shape[1]))
    runs = np.arange(len(x))
    slopes[:, runs, 0] = floor / whole
    slopes[:, runs, first] = of_size / whole
    slopes[:, runs, first + 1] = -x * of_size / whole
    slopes[:, runs, first + 2] = of_data / whole
    slopes[:, runs, first + 3] = -y * of_data / whole
    return np.log(whole) - np.log(points.loss), slopes


def _starts(points: Points) -> np.ndarray:
    families = points.family.max() + 1
    lowest = points.loss.min()
    medians = [np.median(points.loss[points.family == family]) for family in range(families)]
    grid = []
    for floor, alpha, beta in product(FLOORS, EXPONENTS, EXPONENTS):
        half = [np.log(max(median - floor * lowest, 1e-3) / 2) for median in medians]
        grid.append([np.log(floor * lowest), *(each for a in half for each in (a, alpha, a, beta))])
    return np.array(grid)


def _compute(theta: np.ndarray, x: np.ndarray, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    log_e, log_a, alpha, log_b = (theta[:, [each]] for each in range(4))
    shifted = np.exp(log_b) + x
    falling, floor = np.exp(log_a) * shifted**-alpha, np.exp(log_e)
    whole = falling + floor
    slopes = [floor, falling, -falling * np.log(shifted), -falling * alpha * np.exp(log_b) / shifted]
    return np.log(whole) - np.log(loss), np.stack([each / whole for each in slopes], -1)


def fit_together(points: Points, weights: np.ndarray | None = None, starts: np.ndarray | None = None) -> np.ndarray:
    """Fit the law to the runs of one family.

    Args:
        weights, starts: as for ``fit_sizes``

    Returns:
        problems x 4: alpha log N_c and alpha, beta log D_c and log beta, where N and D are over their geometric means:
        ``named_together`` undoes that
    """
    half = np.log(np.median(points.loss))
    grid = np.array([[half, alpha, half, np.log(beta)] for alpha, beta in product(EXPONENTS, EXPONENTS)])
    grid[:, [0, 2]] -= np.exp(grid[:, [3]]) * np.log(2)  # so that both together are the loss
    return solve(lambda theta, _: _together(theta, points), grid, weights, starts)


def named_together(theta: np.ndarray, points: Points) -> Parameters:
    """N_c, alpha, D_c and beta, by what ``fit_together`` returned."""
    of_size, alpha, of_data, log_beta = theta.T
    beta = np.exp(log_beta)
    n, d = centers(points)
    with np.errstate(over="ignore", divide="ignore"):  # of a law that is not identified
        sizes, amounts = np.exp(of_size / alpha + n), np.exp(of_data / beta + d)
    return {"N_c": sizes, "alpha": alpha, "D_c": amounts, "beta": beta}


def loss_together(named: Parameters, parameters: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """``((N_c / N)^(alpha / beta) + D_c / D)^beta`` (problems x points)."""
    sizes, alpha, amounts, beta = (named[name][:, None] for name in ("N_c", "alpha", "D_c", "beta"))
    return ((sizes / parameters) ** (alpha / beta) + amounts / tokens) ** beta


def _together(theta: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
    n, d = centers(points)
    x, y = np.log(points.parameters) - n, np.log(points.tokens) - d
    of_size, alpha, of_data, log_beta = (theta[:, [each]] for each in range(4))
    beta = np.exp(log_beta)
    u, v = of_size - alpha * x, of_data - beta * y  # logarithms of (N_c / N)^alpha and (D_c / D)^beta
    whole = np.logaddexp(u / beta, v / beta)
    share = np.exp(u / beta - whole)
    of_beta = beta * (whole - (1 - share) * y) - share * u - (1 - share) * v
    slopes = np.stack([share, -share * x, 1 - share, of_beta], -1)
    return beta * whole - np.log(points.loss), slopes
