"""The law ``L(N, D) = ((N_c / N)^(alpha / beta) + D_c / D)^beta`` (Kaplan et al. 2020, equation 1.5), by family.

N and D interact in it: a larger model gains less if there is little data. It is fitted with Huber's loss on log L from
a grid of starts; intervals are from a bootstrap over runs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from scipy.optimize import least_squares

from resmlp_mt.lab.scaling.grid import Run

CONFIDENCE = 0.95
RESAMPLES = 400
FEWEST_SIZES = FEWEST_AMOUNTS = 3
FEWEST_RUNS = 7  # three more than the law has constants
EXPONENTS = 0.1, 0.3, 0.8  # alpha and beta of the starts
DELTA = 0.01
"""The residual of log L at which Huber's loss turns from quadratic to linear: one per cent of the loss."""

NAMES = "N_c", "alpha", "D_c", "beta"


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def loss_by(law: np.ndarray, sizes: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Return the law's loss. ``law``: the constants in NAMES, but log N_c and log D_c, as those two may be huge."""
    log_n, alpha, log_d, beta = law
    return np.exp(beta * np.logaddexp(alpha / beta * (log_n - np.log(sizes)), log_d - np.log(tokens)))


def points_of(runs: Sequence[Run]) -> np.ndarray:
    """N, D and the lowest loss of each run: 3 x runs."""
    points = [(run.parameters.non_embedding, run.tokens, run.best) for run in runs]
    return np.array(points, float).reshape(-1, 3).T


def fit_law(points: np.ndarray, starts: Iterable[np.ndarray] = ()) -> np.ndarray:
    """Fit the law to points (3 x runs), from given starts or a grid of them.

    The unknowns are log (N_c / N)^alpha at the geometric mean of N, alpha, log (D_c / D)^beta at that of D, and log
    beta. They are of similar size and less correlated than the constants. Returns log N_c, alpha, log D_c and beta.
    """
    n, d, target = np.log(points)
    centers = n.mean(), d.mean()

    def constants(unknowns: np.ndarray) -> np.ndarray:
        of_size, alpha, of_data, log_beta = unknowns
        beta = math.exp(log_beta)
        return np.array([of_size / alpha + centers[0], alpha, of_data / beta + centers[1], beta])

    def residuals(unknowns: np.ndarray) -> np.ndarray:
        return np.log(loss_by(constants(unknowns), *points[:2])) - target

    def unknowns_of(law: np.ndarray) -> list[float]:
        log_n, alpha, log_d, beta = law
        return [alpha * (log_n - centers[0]), alpha, beta * (log_d - centers[1]), math.log(beta)]

    half = float(np.median(target))
    grid = [unknowns_of(law) for law in starts] or [
        [half - beta * math.log(2), alpha, half - beta * math.log(2), math.log(beta)]  # equal terms; loss: the median
        for alpha, beta in product(EXPONENTS, EXPONENTS)
    ]
    bounds = [-np.inf, 1e-3, -np.inf, math.log(1e-3)], [np.inf, 10, np.inf, math.log(10)]
    found = [least_squares(residuals, start, bounds=bounds, loss="huber", f_scale=DELTA) for start in grid]
    return constants(min(found, key=lambda each: each.cost).x)


@dataclass(frozen=True)
class FamilyFit:
    """The fit of a family; without a law if there are too few points for one (``why_not`` tells)."""

    runs: list[Run]  # those that have not diverged
    why_not: str = ""
    law: np.ndarray | None = None
    constants: dict[str, Estimate] = field(default_factory=dict)
    misfit: float = math.nan  # the root of the mean squared residual of log L
    seeds_spread: float = math.nan  # the standard deviation of log L over seeds of the same cell
    held_out: dict[str, float] = field(default_factory=dict)  # what was left out, and the mean absolute error of log L


def why_not(runs: Sequence[Run]) -> str:
    sizes, amounts = {run.parameters.non_embedding for run in runs}, {run.cell.pairs for run in runs}
    if len(runs) >= FEWEST_RUNS and len(sizes) >= FEWEST_SIZES and len(amounts) >= FEWEST_AMOUNTS:
        return ""
    return (
        f"too few points for a fit: {len(runs)} runs of {len(sizes)} sizes and {len(amounts)} amounts of data; "
        f"at least {FEWEST_RUNS} of {FEWEST_SIZES} and {FEWEST_AMOUNTS} are needed"
    )


def fit_family(runs: Sequence[Run], seed: int = 1) -> FamilyFit:
    """Fit the law to the finished runs of one family; those that have diverged are left out."""
    runs = [run for run in runs if not run.diverged]
    if missing := why_not(runs):
        return FamilyFit(runs, missing)
    points, random = points_of(runs), np.random.default_rng(seed)
    law = fit_law(points)
    chosen = (random.integers(len(runs), size=len(runs)) for _ in range(RESAMPLES))
    draws = np.array([fit_law(points[:, each], [law]) for each in chosen])
    # residuals of a fit are too small, which makes the interval of a bootstrap too short
    wider = math.sqrt(len(runs) / (len(runs) - len(NAMES)))
    spread = law + wider * (draws - law)
    constants, tail = {}, (1 - CONFIDENCE) / 2
    low, high = np.nanquantile(spread, [tail, 1 - tail], axis=0, method="nearest")  # some may be infinite
    for name, *values in zip(NAMES, law, low, high, strict=True):
        with np.errstate(over="ignore"):
            constants[name] = Estimate(*(np.exp(values) if name.endswith("_c") else values))
    held_out = {}
    for what, row in ("the largest size", 0), ("the largest amount of data", 1):
        held = points[row] == points[row].max()
        if not why_not([run for run, out in zip(runs, held, strict=True) if not out]):
            held_out[what] = _error(fit_law(points[:, ~held]), points[:, held], 1)
    return FamilyFit(runs, "", law, constants, _error(law, points, 2), seeds_spread(runs), held_out)


def _error(law: np.ndarray, points: np.ndarray, power: int) -> float:
    left = np.abs(np.log(loss_by(law, *points[:2]) / points[2]))
    return float(np.mean(left**power) ** (1 / power))


def seeds_spread(runs: Sequence[Run]) -> float:
    """Return the standard deviation of log L over seeds, from the mean variance of cells with several (NaN: none)."""
    by_cell: dict[tuple[str, int], list[float]] = {}
    for run in runs:
        by_cell.setdefault((run.cell.size, run.cell.pairs), []).append(math.log(run.best))
    found = [np.var(losses, ddof=1) for losses in by_cell.values() if len(losses) > 1]
    return float(np.sqrt(np.mean(found))) if found else math.nan
