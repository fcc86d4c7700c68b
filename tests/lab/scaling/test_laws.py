"""The laws, fitted to what known constants make, beside SciPy's fits."""

import numpy as np
import pytest
from made_runs import CHINCHILLA, loss
from scipy.optimize import curve_fit, least_squares

from resmlp_mt.lab.scaling.fit import estimate
from resmlp_mt.lab.scaling.laws import (
    DELTA,
    SIZES,
    TOGETHER,
    Points,
    fit_compute,
    fit_sizes,
    loss_of_compute,
    loss_of_sizes,
)

KAPLAN = {"N_c": 6.4e13, "alpha": 0.076, "D_c": 1.8e13, "beta": 0.103}
"""Kaplan et al. 2020, table 2."""


def kaplan_loss(constants, n, d):
    alpha, beta = constants["alpha"], constants["beta"]
    return ((constants["N_c"] / n) ** (alpha / beta) + constants["D_c"] / d) ** beta


LAWS = [(CHINCHILLA, loss, SIZES), (KAPLAN, kaplan_loss, TOGETHER)]


def points(sizes, amounts, noise=0.0, random=None, constants=CHINCHILLA, law=loss):
    n, d = (each.ravel() for each in np.meshgrid(sizes, amounts))
    drawn = random.normal(size=len(n)) if random else np.zeros(len(n))
    return Points(n, d, law(constants, n, d) * np.exp(noise * drawn))


def test_scipy_finds_the_same_law_of_n_and_d_with_huber_s_loss():
    made = points(np.geomspace(1e5, 1e8, 5), np.geomspace(1e6, 1e9, 5), 0.02, np.random.default_rng(3))
    found, _ = fit_sizes(made)

    def residuals(theta):
        named = dict(zip(("E", "A", "B"), np.exp(theta[:3])[:, None], strict=True))
        named |= dict(zip(("alpha", "beta"), theta[3:, None], strict=True))
        return np.log(loss_of_sizes(named, made.parameters, made.tokens)[0] / made.loss)

    start = [*np.log([found[name][0] for name in ("E", "A", "B")] * np.array([1.1, 0.7, 1.4])), 0.3, 0.3]
    theirs = least_squares(residuals, start, loss="huber", f_scale=DELTA, x_scale="jac", xtol=1e-12, ftol=1e-12)
    assert theirs.x[3:] == pytest.approx([found["alpha"][0], found["beta"][0]], abs=2e-3)
    assert np.exp(theirs.x[0]) == pytest.approx(found["E"][0], rel=2e-3)


def test_curve_fit_finds_the_same_law_of_compute():
    compute = np.geomspace(1e9, 1e14, 24)
    known = {"E": 1.5, "a": 300.0, "alpha": 0.2, "b": 2e9}
    random = np.random.default_rng(1)
    made = loss_of_compute({name: np.array([each]) for name, each in known.items()}, compute)
    made *= np.exp(0.001 * random.normal(size=made.shape))  # so small that Huber's loss is the square
    found = fit_compute(compute, made, np.ones_like(made)[1:])[0]

    def law(c, log_e, log_a, alpha, log_b):
        return np.log(np.exp(log_e) + np.exp(log_a) * (np.exp(log_b) + c) ** -alpha)

    start = [np.log(1.5), np.log(300), 0.2, np.log(2e9)]
    theirs, _ = curve_fit(law, compute, np.log(made[0]), start, maxfev=20000)
    assert found["alpha"][0] == pytest.approx(theirs[2], rel=1e-2)
    assert found["E"][0] == pytest.approx(np.exp(theirs[0]), rel=1e-2)
    assert found["alpha"][0] == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize(("known", "made_by", "law"), LAWS, ids=["Hoffmann et al.", "Kaplan et al."])
def test_known_constants_are_found_again(known, made_by, law):
    made = points(np.geomspace(1e6, 1e9, 6), np.geomspace(2e7, 2e10, 6), constants=known, law=made_by)
    found, _ = law.fit(made)
    assert {name: each[0] for name, each in found.items()} == pytest.approx(known, rel=1e-2)


@pytest.mark.parametrize(("known", "made_by", "law"), LAWS, ids=["Hoffmann et al.", "Kaplan et al."])
def test_intervals_cover_the_truth_about_as_often_as_they_say(known, made_by, law):
    random = np.random.default_rng(0)
    covered = {"alpha": 0, "beta": 0}
    for _ in range(100):
        made = points(np.geomspace(1e5, 1e8, 5), np.geomspace(1e6, 1e9, 5), 0.005, random, known, made_by)
        runs = len(made.loss)
        one, many = law.fit(made, random.multinomial(runs, [1 / runs] * runs, 60).astype(float))
        for name in covered:
            each = estimate(one[name][0], many[name], runs, law.constants)
            covered[name] += each.low <= known[name] <= each.high
    assert all(88 <= times <= 99 for times in covered.values()), covered
