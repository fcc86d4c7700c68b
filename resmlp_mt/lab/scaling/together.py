"""``L(N, D) = ((N_c / N)^(alpha / beta) + D_c / D)^beta`` (Kaplan et al. 2020, equation 1.5): N and D act together.

In Hoffmann et al.'s law a larger model gains as much with little data as with much. Here it gains less where data is
short, as it does where a sample is read several times. There is no E: with N and D the loss falls to zero.
"""

from itertools import product

import numpy as np

from resmlp_mt.lab.scaling.laws import EXPONENTS, Parameters, Points, centers, solve


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
    return solve(_together, points, grid, weights, starts)


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
