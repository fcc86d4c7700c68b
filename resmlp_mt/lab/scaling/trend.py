"""Which of two families has the lower loss in each cell, and how the difference changes with size and data.

This needs no law: a regression on log N and log D shows differences where the constants of laws are not identified.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from resmlp_mt.lab.scaling.grid import Run
from resmlp_mt.lab.scaling.laws import CONFIDENCE, Estimate

FEWEST_CELLS = 5
Place = tuple[str, str, int]  # of a cell: family, size, pairs
Difference = tuple[float, float, float]  # N, D, and by how much one family's mean is above another's


@dataclass(frozen=True)
class Trend:
    """The regression ``L_one - L_other = mean + a log2 N + b log2 D + c log2 N log2 D`` over cells; also of BLEU.

    L of a cell is the mean over seeds. N is that of the other family. N and D are divided by their geometric means, and
    the product has its mean subtracted. c is 0 if the cells do not determine it. Intervals are Student's, that of the
    crossing is Fieller's; they include the noise of seeds and the error of the regression.
    """

    cells: int
    mean: Estimate  # nats a token, or BLEU
    of_size: Estimate  # a, for each doubling of N
    of_data: Estimate  # b, for each doubling of D
    of_data_at_largest: Estimate  # b + c log2 N, for each doubling of D with the largest N
    crossing: Estimate | None  # D at which both are equal with the largest N; None where that slope may be zero


def means(runs: Sequence[Run], figure: str) -> dict[Place, float]:
    """Return the mean of ``best`` (the loss) or ``bleu`` over seeds, by family, size and pairs.

    Runs that diverged or do not have the figure are left out.
    """
    found: dict[Place, list[float]] = {}
    for run in runs:
        if not run.diverged and getattr(run, figure) is not None:
            found.setdefault((run.cell.family, run.cell.size, run.cell.pairs), []).append(getattr(run, figure))
    return {cell: statistics.fmean(values) for cell, values in found.items()}


def differences(runs: Sequence[Run], one: str, other: str, figure: str = "best") -> dict[Place, Difference]:
    """Return N and D of the other family and the difference of the families' means, by the cells of ``one``."""
    values = means(runs, figure)
    found: dict[Place, Difference] = {}
    for run in runs:
        cell = one, run.cell.size, run.cell.pairs
        beside = other, run.cell.size, run.cell.pairs
        if run.cell.family == other and {cell, beside} <= values.keys():
            found[cell] = run.parameters.non_embedding, run.tokens, values[cell] - values[beside]
    return found


def trend(cells: Iterable[Difference]) -> Trend | None:
    """Return the least-squares regression over cells.

    None if there are fewer than five cells, or only one size or one amount of data.
    """
    n, d, difference = np.array(list(cells), float).reshape(-1, 3).T
    n, d = np.log2(n), np.log2(d)
    if len(n) < FEWEST_CELLS or len(set(n)) == 1 or len(set(d)) == 1:
        return None
    center_d, largest = d.mean(), n.max() - n.mean()
    n, d = n - n.mean(), d - center_d
    product = (n * d).mean()  # the columns are centred, so that the constant is the mean of the cells
    x = np.stack([np.ones(len(n)), n, d, n * d - product], 1)
    alone = np.square(np.linalg.qr(x)[0]).sum(1) > 1 - 1e-9  # a cell that the regression always fits exactly
    if np.linalg.matrix_rank(x) < x.shape[1] or alone.any():
        x = x[:, :3]
    found, _, _, _ = np.linalg.lstsq(x, difference, rcond=None)
    freedom = len(n) - len(found)
    variance = np.sum((difference - x @ found) ** 2) / freedom * np.linalg.inv(x.T @ x)
    # rows: the reported sums of coefficients; last, the difference with the largest N at the mean of log D
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
    return Trend(len(n), told[0], told[1], told[2], at_largest, crossing)
