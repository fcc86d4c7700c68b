"""Made-up runs whose losses follow a known law."""

import numpy as np

from resmlp_mt.lab.scaling.grid import Cell, Parameters, Run

KAPLAN = {"N_c": 6.4e13, "alpha": 0.076, "D_c": 1.8e13, "beta": 0.103}
"""Kaplan et al. 2020, table 2."""


def kaplan_loss(n, d, constants=KAPLAN):
    alpha, beta = constants["alpha"], constants["beta"]
    return ((constants["N_c"] / n) ** (alpha / beta) + constants["D_c"] / d) ** beta


def made_runs(family, loss, sizes, amounts, noise=0.0, seed=1):
    """Return a run for each size n and amount of data d, whose lowest loss is ``loss(n, d)``, times noise."""
    random = np.random.default_rng(seed)
    return [
        Run(
            cell=Cell(family, f"n{n:.0f}", round(d), 1),
            parameters=Parameters(1000, round(n / 2), round(n / 2), round(n / 10)),
            tokens=round(d),
            updates=[10, 20, 30],
            losses=[least + 1, least, least + 0.1],
            processor_seconds=60.0,
            diverged=False,
        )
        for n in sizes
        for d in amounts
        for least in [loss(n, d) * np.exp(noise * random.normal())]
    ]
