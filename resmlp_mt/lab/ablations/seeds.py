"""What trainings with several seeds tell: mean, spread, and how far two rows are from each other."""

import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class SeedSpread:
    """The mean of a row's figures with different seeds, and the sample's standard deviation; None of one figure."""

    mean: float
    sd: float | None


@dataclass(frozen=True)
class Difference:
    """How far the mean of a row is from that of another.

    Attributes:
        low, high: Welch's t interval of it (``CONFIDENCE``), for unequal variances; None where nothing tells the
            variance: one of the rows has a single figure, or in neither does any figure differ from the others
    """

    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def told(self) -> bool:
        """Whether zero is outside of the interval."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def spread(figures: Sequence[float]) -> SeedSpread:
    """Mean and standard deviation of one or more figures."""
    return SeedSpread(statistics.fmean(figures), statistics.stdev(figures) if len(figures) > 1 else None)


def difference(row: Sequence[float], baseline: Sequence[float]) -> Difference:
    """The difference of two rows' means, with its interval over seeds.

    The two are taken as independent: an equal seed makes the order of the batches equal, not the weights.
    """
    mean = statistics.fmean(row) - statistics.fmean(baseline)
    if min(len(row), len(baseline)) < 2 or max(len(set(row)), len(set(baseline))) < 2:
        return Difference(mean)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # scipy's, of a side without any spread
        interval = stats.ttest_ind(row, baseline, equal_var=False).confidence_interval(CONFIDENCE)
    return Difference(mean, float(interval.low), float(interval.high))
