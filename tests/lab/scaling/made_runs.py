"""Runs as known laws make them."""

import numpy as np

from resmlp_mt.lab.scaling.grid import BUDGET, Cell, Parameters, Run

CHINCHILLA = {"E": 1.69, "A": 406.4, "alpha": 0.34, "B": 410.7, "beta": 0.28}
"""Hoffmann et al. 2022, section 3.3, "Approach 3"."""


def loss(constants, n, d):
    power = constants["A"] * n ** -constants["alpha"] + constants["B"] * d ** -constants["beta"]
    return constants["E"] + power


def made_runs(family, constants, sizes, amounts, noise=0.0, seed=1, steps=8, flops=6.0):
    """A run for each size and amount of data; a curve falls as if its tokens were new, until it has seen D of them."""
    random = np.random.default_rng(seed)
    runs = []
    for n in sizes:
        for d in amounts:
            seen = np.geomspace(d / 30, d, steps)
            losses = loss(constants, n, seen) * np.exp(noise * random.normal())
            runs.append(
                Run(
                    cell=Cell(family, f"n{n:.0f}", round(d), 1),
                    parameters=Parameters(1000, round(n / 2), round(n / 2), round(n / 10)),
                    flops=flops * n,
                    tokens=round(d),
                    updates=list(range(1, steps + 1)),
                    seen=list(seen),
                    losses=list(losses),
                    processor_seconds=60.0,
                    end=BUDGET,
                )
            )
    return runs
