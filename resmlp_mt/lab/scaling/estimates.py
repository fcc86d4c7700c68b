"""A fitted number with its interval by a bootstrap over runs."""

import math
from dataclasses import dataclass, field

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A fitted number by all runs, the ends of its interval, and the number by each resample of the runs."""

    value: float
    low: float
    high: float
    draws: np.ndarray = field(repr=False, compare=False)

    def as_json(self) -> dict[str, float | None]:
        """Value and ends, none where they are no finite number."""
        named = {name: float(getattr(self, name)) for name in ("value", "low", "high")}
        return {name: each if math.isfinite(each) else None for name, each in named.items()}

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def estimate(value: float, draws: np.ndarray, runs: int, constants: int, factor: bool = False) -> Estimate:
    """A percentile interval of a bootstrap, as much wider as the residuals of a fit are too small.

    Args:
        runs: that were fitted
        constants: of the law
        factor: the number is above zero, and its logarithm is what is made wider
    """
    wider = math.sqrt(runs / max(runs - constants, 1))
    with np.errstate(over="ignore", divide="ignore"):
        draws = value * (draws / value) ** wider if factor else value + (draws - value) * wider
    return Estimate(value, *interval(draws), draws)


def interval(draws: np.ndarray) -> tuple[float, float]:
    """The ends between which CONFIDENCE of the draws are."""
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.nanpercentile(draws, [tail, 100 - tail], method="nearest")  # some may be infinite
    return float(low), float(high)


def difference(one: Estimate, other: Estimate) -> Estimate:
    """One minus the other, of families whose runs have nothing in common."""
    draws = one.draws - other.draws
    return Estimate(one.value - other.value, *interval(draws), draws)
