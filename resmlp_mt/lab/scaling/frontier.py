"""The lowest loss that any run of a family has reached with an amount of compute."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from resmlp_mt.lab.scaling.runs import Run

STEPS = 24
"""Amounts of compute, evenly spaced in the logarithm."""


@dataclass(frozen=True)
class Frontier:
    """One or more frontiers, each of some of the runs.

    Attributes:
        compute: FLOPs (steps)
        loss: nats a token (problems x steps), infinite where no run has such a point
        run: the number of the run that is best (problems x steps)
    """

    compute: np.ndarray
    loss: np.ndarray
    run: np.ndarray


def frontier(runs: Sequence[Run], counts: np.ndarray | None = None) -> Frontier:
    """The frontier of runs. Between two validations a curve is a line over the logarithm of the compute.

    Args:
        counts: how often each run is there (problems x runs); all of them once without
    """
    lowest, highest = min(min(run.compute) for run in runs), max(max(run.compute) for run in runs)
    compute = np.geomspace(lowest, highest, STEPS)
    lines = ((np.log(run.compute), np.minimum.accumulate(run.losses)) for run in runs)
    curves = np.array([np.interp(np.log(compute), *line, left=np.inf, right=np.inf) for line in lines])
    counts = np.ones((1, len(runs))) if counts is None else counts
    losses = np.where(counts[:, :, None] > 0, curves, np.inf)
    return Frontier(compute, losses.min(1), losses.argmin(1))
