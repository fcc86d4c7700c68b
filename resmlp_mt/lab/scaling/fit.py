"""The laws of each family, their intervals by a bootstrap over runs, and how well they predict runs left out."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from resmlp_mt.lab.scaling.grid import DIVERGED, Run
from resmlp_mt.lab.scaling.laws import SIZES, TOGETHER, Law, Parameters, Points, fit_compute

CONFIDENCE = 0.95
RESAMPLES = 400
STEPS = 24  # amounts of compute on a frontier, evenly spaced in the logarithm
FEWEST_SIZES = FEWEST_AMOUNTS = 3
FEWEST_RUNS = 7  # two more than the law of N and D has constants

FACTORS = "E", "A", "B", "a", "b", "N_c", "D_c"
"""Constants above zero, of whose logarithm an interval is."""


@dataclass(frozen=True)
class Estimate:
    """A fitted number by all runs, the ends of its interval, and the number by each resample of the runs."""

    value: float
    low: float
    high: float
    draws: np.ndarray = field(repr=False, compare=False)

    def as_json(self) -> dict[str, float | None]:
        named = {name: float(getattr(self, name)) for name in ("value", "low", "high")}
        return {name: each if math.isfinite(each) else None for name, each in named.items()}

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


Constants = dict[str, Estimate]


def estimate(value: float, draws: np.ndarray, runs: int, constants: int, factor: bool = False) -> Estimate:
    """A percentile interval of a bootstrap over so many runs, wider as the residuals of a law's fit are too small."""
    wider = math.sqrt(runs / max(runs - constants, 1))
    with np.errstate(over="ignore", divide="ignore"):
        draws = value * (draws / value) ** wider if factor else value + (draws - value) * wider
    return Estimate(value, *interval(draws), draws)


def interval(draws: np.ndarray) -> tuple[float, float]:
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.nanpercentile(draws, [tail, 100 - tail], method="nearest")  # some may be infinite
    return float(low), float(high)


@dataclass(frozen=True)
class Frontier:
    """The lowest loss that any of all runs, and of each resample of them, has reached with an amount of compute."""

    compute: np.ndarray  # FLOPs (steps)
    loss: np.ndarray  # nats a token (1 + resamples x steps), infinite where no run has such a point
    run: np.ndarray  # the number of the run that is best (1 + resamples x steps)


def frontier(runs: Sequence[Run], counts: np.ndarray | None = None) -> Frontier:
    """The frontier of all runs, and of each resample, in which runs are ``counts`` times (resamples x runs)."""
    lowest, highest = min(min(run.compute) for run in runs), max(max(run.compute) for run in runs)
    compute = np.geomspace(lowest, highest, STEPS)
    lines = ((np.log(run.compute), np.minimum.accumulate(run.losses)) for run in runs)
    curves = np.array([np.interp(np.log(compute), *line, left=np.inf, right=np.inf) for line in lines])
    there = np.concatenate([np.ones((1, len(runs))), *([] if counts is None else [counts])]) > 0
    losses = np.where(there[:, :, None], curves, np.inf)
    return Frontier(compute, losses.min(1), losses.argmin(1))


@dataclass(frozen=True)
class Fit:
    """A law's constants by all runs, by each resample of them, and with their intervals."""

    one: Parameters = field(default_factory=dict)
    many: Parameters = field(default_factory=dict)
    constants: Constants = field(default_factory=dict)
    residual: float = math.nan  # the root of the mean squared residual of log L


def bootstrapped(one: Parameters, many: Parameters, runs: int, constants: int, residual: float = math.nan) -> Fit:
    found = {name: estimate(float(one[name][0]), many[name], runs, constants, name in FACTORS) for name in one}
    return Fit(one, many, found, residual)


@dataclass(frozen=True)
class HeldOut:
    """Runs that a fit has not seen: those of the largest size, or of the largest amount of data."""

    what: str
    error: float  # the mean of the absolute errors of the predicted losses, as shares of the losses
    runs: int
    error_together: float  # by the law in which N and D act together


@dataclass(frozen=True)
class FamilyFit:
    """What was found of a family; where something lacks for a fit (``why_not``), nothing but a frontier."""

    runs: list[Run]  # those that have not diverged
    why_not: str = ""
    frontier: Frontier | None = None
    flops: tuple[float, float] = (math.nan, math.nan)  # k and growth of FLOPs a token = k N^growth
    sizes: Fit = field(default_factory=Fit)  # L(N, D), with the split's N* and D*
    together: Fit = field(default_factory=Fit)  # the law in which N and D act together
    compute: Fit = field(default_factory=Fit)  # L(C) on the frontier; with the exponent of C in the best sizes
    held_out: list[HeldOut] = field(default_factory=list)


def points_of(runs: Sequence[Run]) -> Points:
    """What ``L(N, D)`` is fitted to: the lowest loss of each run."""
    return Points(
        np.array([float(run.parameters.non_embedding) for run in runs]),
        np.array([float(run.tokens) for run in runs]),
        np.array([run.best for run in runs]),
    )


def flops_law(runs: Sequence[Run], points: Points) -> tuple[float, float]:
    """k and growth of ``FLOPs a token = k N^growth``, through the smallest and the largest N; they are not 6 and 1."""
    small, large = int(np.argmin(points.parameters)), int(np.argmax(points.parameters))
    growth = np.log(runs[large].flops / runs[small].flops) / np.log(points.parameters[large] / points.parameters[small])
    return float(runs[small].flops / points.parameters[small] ** growth), float(growth)


def split(named: Parameters, growth: float) -> Parameters:
    """The exponents of C in N* and D*, which minimize ``L(N, D)`` where ``C = k N^growth D``, each token read once.

    With growth 1 they are Hoffmann et al.'s ``beta / (alpha + beta)`` and ``alpha / (alpha + beta)``.
    """
    whole = growth * named["beta"] + named["alpha"]
    return {"N*": named["beta"] / whole, "D*": named["alpha"] / whole}


def best_size(flops: tuple[float, float], named: Parameters, compute: np.ndarray) -> np.ndarray:
    """N* for amounts of compute (problems x amounts); where it is no number, there is no best size."""
    a, alpha, b, beta = (named[name][:, None] for name in ("A", "alpha", "B", "beta"))
    k, growth = flops
    with np.errstate(all="ignore"):
        return (alpha * a / (growth * beta * b) * (compute / k) ** beta) ** (1 / (alpha + growth * beta))


def resamples(runs: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).multinomial(runs, [1 / runs] * runs, RESAMPLES).astype(float)


def lacks(runs: Sequence[Run]) -> str:
    sizes, amounts = {run.cell.size for run in runs}, {run.cell.pairs for run in runs}
    if len(runs) >= FEWEST_RUNS and len(sizes) >= FEWEST_SIZES and len(amounts) >= FEWEST_AMOUNTS:
        return ""
    return (
        f"too few points for a fit: {len(runs)} runs of {len(sizes)} sizes and {len(amounts)} amounts of data; "
        f"at least {FEWEST_RUNS} of {FEWEST_SIZES} and {FEWEST_AMOUNTS} are needed"
    )


def fit_family(runs: Sequence[Run], seed: int = 1) -> FamilyFit:
    """Fit the laws of one family to its finished runs; those that have diverged are left out."""
    runs = [run for run in runs if run.end != DIVERGED]
    missing = lacks(runs)
    if missing:
        return FamilyFit(runs, missing, frontier(runs) if runs else None)
    counts, points = resamples(len(runs), seed), points_of(runs)
    whole, compute = _fit_compute(runs, counts)
    k, growth = flops_law(runs, points)
    return FamilyFit(
        runs=runs,
        frontier=whole,
        flops=(k, growth),
        sizes=_fit(SIZES, points, counts, growth),
        together=_fit(TOGETHER, points, counts),
        compute=compute,
        held_out=[
            *hold_out(runs, points.parameters, "the largest size"),
            *hold_out(runs, points.tokens, "the largest amount of data"),
        ],
    )


def fit_families(runs: Sequence[Run], names: Sequence[str]) -> dict[str, FamilyFit]:
    return {
        name: fit_family([run for run in runs if run.cell.family == name], seed) for seed, name in enumerate(names, 1)
    }


def _fit(law: Law, points: Points, counts: np.ndarray, growth: float | None = None) -> Fit:
    one, many = law.fit(points, counts)
    left = np.log(law.loss(one, points.parameters, points.tokens)[0] / points.loss)
    if growth is not None:
        one, many = one | split(one, growth), many | split(many, growth)
    return bootstrapped(one, many, len(points.loss), law.constants, float(np.sqrt(np.mean(left**2))))


def _fit_compute(runs: Sequence[Run], counts: np.ndarray) -> tuple[Frontier, Fit]:
    found = frontier(runs, counts)
    there = np.isfinite(found.loss[0])
    compute, loss = found.compute[there], found.loss[:, there]
    reached = np.isfinite(loss)
    one, many = fit_compute(compute, np.where(reached, loss, 1.0), reached[1:] * 1.0)
    sizes = np.log([run.parameters.non_embedding for run in runs])
    value, *draws = (
        float(np.polyfit(np.log(compute[known]), sizes[best[known]], 1)[0]) if known.sum() > 1 else math.nan
        for best, known in zip(found.run[:, there], reached, strict=True)
    )
    fit = bootstrapped(one, many, len(runs), 4)
    fit.constants["N on the frontier"] = estimate(value, np.array(draws), len(runs), 2)
    return found, fit


def hold_out(runs: Sequence[Run], values: np.ndarray, what: str) -> list[HeldOut]:
    """Fit the laws without the runs of the largest value and predict their losses; nothing if too few are left."""
    largest = values.max()
    left = [run for run, value in zip(runs, values, strict=True) if value != largest]
    if lacks(left):
        return []
    points, held = points_of(left), points_of([run for run in runs if run not in left])
    errors = []
    for law in SIZES, TOGETHER:
        one, _ = law.fit(points)
        expected = law.loss(one, held.parameters, held.tokens)[0]
        errors.append(float(np.mean(np.abs(expected / held.loss - 1))))
    return [HeldOut(what, errors[0], len(held.loss), errors[1])]


COMPARED: dict[str, Callable[[FamilyFit], Estimate]] = {
    "alpha, of parameters": lambda fit: fit.sizes.constants["alpha"],
    "beta, of data": lambda fit: fit.sizes.constants["beta"],
    "alpha, N and D together": lambda fit: fit.together.constants["alpha"],
    "beta, N and D together": lambda fit: fit.together.constants["beta"],
    "alpha, of compute": lambda fit: fit.compute.constants["alpha"],
    "N*, of the split": lambda fit: fit.sizes.constants["N*"],
}


def differences(families: Mapping[str, FamilyFit]) -> dict[str, Constants]:
    """By ``one minus another``, the difference of each exponent; of families that have enough runs.

    Their runs have nothing in common, so the draws of one are independent of the other's.
    """
    fitted = {name: each for name, each in families.items() if not each.why_not}
    found: dict[str, Constants] = {}
    for other, one in itertools.combinations(fitted, 2):
        pairs = {name: (of(fitted[one]), of(fitted[other])) for name, of in COMPARED.items()}
        found[f"{one} minus {other}"] = {
            name: Estimate(left.value - right.value, *interval(left.draws - right.draws), left.draws - right.draws)
            for name, (left, right) in pairs.items()
        }
    return found
