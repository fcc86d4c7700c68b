"""Which of two families has the lower loss in each cell, and how the difference changes with size and data.

No law is asked for: a regression on log N and log D tells what a law with more constants does not identify.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from resmlp_mt.lab.scaling.grid import Run
from resmlp_mt.lab.scaling.laws import CONFIDENCE, Estimate

FEWEST_CELLS = 5


@dataclass(frozen=True)
class Trend:
    """``L_one - L_other = mean + a log2 N + b log2 D + c log2 N log2 D``, N of the other, N and D over their geometric
    means, the product less its mean; L of a cell is the mean over seeds. The same for BLEU. Where the cells do not
    tell c, it is 0.

    The intervals are Student's, the crossing's Fieller's; they hold what seeds do and what the regression does not.
    """

    cells: int
    mean: Estimate  # nats a token, or BLEU
    of_size: Estimate  # a, for each doubling of N
    of_data: Estimate  # b, for each doubling of D
    of_data_at_largest: Estimate  # b + c log2 N, for each doubling of D with the largest N
    crossing: Estimate | None  # D at which both are equal with the largest N; None where that slope may be zero


def paired(runs: Sequence[Run], one: str, other: str) -> list[tuple[Run, Run]]:
    """Runs of two families in the same cell, the first and the other's; without those that have diverged."""
    found = {(run.cell.size, run.cell.pairs, run.cell.seed, run.cell.family): run for run in runs if not run.diverged}
    mine = (run for run in found.values() if run.cell.family == one)
    names = ((run, (run.cell.size, run.cell.pairs, run.cell.seed, other)) for run in mine)
    return [(run, found[name]) for run, name in names if name in found]


def trend(pairs: Sequence[tuple[Run, Run]], figure: str = "best") -> Trend | None:
    """The regression, by least squares, of the cells whose pairs have the figure, ``best`` (the loss) or ``bleu``.

    Nothing of fewer than five cells or of one size or amount of data.
    """
    cells: dict[Any, list[tuple[float, ...]]] = {}  # N, D and difference for each seed
    for one, other in pairs:
        if getattr(one, figure) is not None and getattr(other, figure) is not None:
            values = other.parameters.non_embedding, other.tokens, getattr(one, figure) - getattr(other, figure)
            cells.setdefault((other.cell.size, other.cell.pairs), []).append(values)
    n, d, difference = np.array([np.mean(seeds, 0) for seeds in cells.values()]).reshape(-1, 3).T
    n, d = np.log2(n), np.log2(d)
    if len(cells) < FEWEST_CELLS or len(set(n)) == 1 or len(set(d)) == 1:
        return None
    center_d, largest = d.mean(), n.max() - n.mean()
    n, d = n - n.mean(), d - center_d
    product = (n * d).mean()  # the columns are centred, so that the constant is the mean of the cells
    x = np.stack([np.ones(len(n)), n, d, n * d - product], 1)
    alone = np.square(np.linalg.qr(x)[0]).sum(1) > 1 - 1e-9  # a cell that the regression goes through, wherever it is
    if np.linalg.matrix_rank(x) < x.shape[1] or alone.any():
        x = x[:, :3]
    found, _, _, _ = np.linalg.lstsq(x, difference, rcond=None)
    freedom = len(cells) - len(found)
    variance = np.sum((difference - x @ found) ** 2) / freedom * np.linalg.inv(x.T @ x)
    # what is told of the coefficients, and the difference with the largest N at the mean of log D
    sums = np.array([(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 1, largest), (1, largest, 0, -product)])
    sums = sums[:, : len(found)]
    values, variance = sums @ found, sums @ variance @ sums.T
    t = stats.t.ppf((1 + CONFIDENCE) / 2, freedom)
    half = t * np.sqrt(np.diag(variance))
    told = [Estimate(value, value - by, value + by) for value, by in zip(values, half, strict=True)]
    crossing, at_largest = None, told[3]
    if at_largest.low > 0 or at_largest.high < 0:
        # Fieller 1954: between the roots of (level + slope d)^2 = t^2 variance of that, the difference may be zero
        slope, both, level = (values[i] * values[j] - t**2 * variance[i, j] for i, j in ((3, 3), (3, 4), (4, 4)))
        apart = np.sqrt(both**2 - slope * level)
        with np.errstate(over="ignore"):
            d = center_d - np.array([values[4] / values[3], (both + apart) / slope, (both - apart) / slope])
            crossing = Estimate(*np.exp2(d))
    return Trend(len(cells), told[0], told[1], told[2], at_largest, crossing)
