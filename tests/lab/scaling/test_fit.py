"""What is found of families whose laws are known."""

from dataclasses import replace

import numpy as np
import pytest
from made_runs import CHINCHILLA, loss, made_runs
from scipy.optimize import minimize_scalar

from resmlp_mt.lab.scaling import fit as fits
from resmlp_mt.lab.scaling.fit import best_size, differences, fit_family, frontier, split
from resmlp_mt.lab.scaling.grid import DIVERGED
from resmlp_mt.lab.scaling.page import Study, drawn

SIZES, AMOUNTS = np.geomspace(1e5, 5e6, 5), np.geomspace(1e5, 1.6e6, 5)
ONE = {"E": 1.2, "A": 20.0, "alpha": 0.3, "B": 60.0, "beta": 0.35}
OTHER = ONE | {"A": 30.0, "alpha": 0.2}
NAMED = {name: np.array([each]) for name, each in ONE.items()}


@pytest.fixture(scope="module", autouse=True)
def few_resamples():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fits, "RESAMPLES", 100)
        yield


@pytest.fixture(scope="module")
def families(few_resamples):
    made = {
        "transformer": fit_family(made_runs("transformer", ONE, SIZES, AMOUNTS, 0.003, 1), 1),
        "none": fit_family(made_runs("none", OTHER, SIZES, AMOUNTS, 0.003, 2), 2),
    }
    return made | {"heads": fit_family(made_runs("heads", ONE, SIZES, AMOUNTS[:2]))}


def test_the_constants_of_known_laws_and_their_differences_are_in_their_intervals(families):
    for name, known in ("transformer", ONE), ("none", OTHER):
        constants = families[name].sizes.constants
        for exponent in "alpha", "beta":
            assert constants[exponent].low < known[exponent] < constants[exponent].high
    found = differences(families)
    assert list(found) == ["none minus transformer"]
    alpha, beta = (found["none minus transformer"][name] for name in ("alpha, of parameters", "beta, of data"))
    assert alpha.low < OTHER["alpha"] - ONE["alpha"] < alpha.high < 0
    assert beta.low < 0 < beta.high


def test_what_is_held_out_is_predicted_within_two_per_cent(families):
    fit = families["transformer"]
    assert {each.what: each.runs for each in fit.held_out} == {"the largest size": 5, "the largest amount of data": 5}
    assert all(0 < each.error < 0.02 for each in fit.held_out)
    assert all(each.error < each.error_together for each in fit.held_out)  # another law than that of these runs
    assert fit.sizes.residual < fit.together.residual < 0.05


def test_too_few_points_are_one_line(families):
    line = "too few points for a fit: 10 runs of 5 sizes and 2 amounts of data; at least 7 of 3 and 3 are needed"
    assert families["heads"].why_not == line


def test_the_split_is_where_the_law_is_least(families):
    growth, k = 0.8, 50.0
    for compute in 1e12, 1e14:
        [[best]] = best_size((k, growth), NAMED, np.array([compute]))

        def at(log_n, compute=compute):
            n = np.exp(log_n)
            return loss(ONE, n, compute / (k * n**growth))

        least = minimize_scalar(at, bracket=(np.log(best) - 2, np.log(best) + 3))
        assert np.log(best) == pytest.approx(least.x, abs=1e-4)
    exponents = split(NAMED, growth)
    small, large = best_size((k, growth), NAMED, np.array([1e12, 1e14]))[0]
    assert exponents["N*"][0] == pytest.approx(np.log(large / small) / np.log(100))
    assert exponents["D*"][0] == pytest.approx(1 - growth * exponents["N*"][0])
    theirs = split({name: np.array([each]) for name, each in CHINCHILLA.items()}, growth=1.0)
    assert (theirs["N*"][0], theirs["D*"][0]) == pytest.approx((0.452, 0.548), abs=1e-3)  # Hoffmann et al.'s own


def test_the_frontier_is_the_lowest_of_the_curves_where_they_are():
    runs = made_runs("transformer", ONE, [1e5, 1e6], [1e6])
    whole = frontier(runs)
    assert whole.compute[0] == pytest.approx(min(runs[0].compute))
    assert whole.loss[0, 0] == pytest.approx(runs[0].losses[0])
    assert whole.loss[0, -1] == pytest.approx(runs[1].losses[-1])
    for run in runs:
        there = (whole.compute >= run.compute[0]) & (whole.compute <= run.compute[-1])
        curve = np.interp(np.log(whole.compute[there]), np.log(run.compute), run.losses)
        assert (whole.loss[0, there] <= curve + 1e-12).all()


def test_a_run_that_diverged_is_left_out_and_counted(families):
    runs = made_runs("transformer", ONE, SIZES, AMOUNTS, 0.003, 1)
    gone = replace(runs[0], cell=replace(runs[0].cell, seed=9), losses=[9.0] * 8, end=DIVERGED)
    nothing = replace(gone, cell=replace(gone.cell, seed=8), updates=[], seen=[], losses=[])
    fit = fit_family([*runs, gone, nothing], 1)
    assert fit.runs == runs
    assert fit.sizes.constants == families["transformer"].sizes.constants
    study = Study("A study", 30, [*runs, gone, nothing], {"transformer": fit}, 0.5, {"command": "scale"})
    names = f"{gone.cell.name}, {nothing.cell.name}"
    assert study.notes()[0] == f"27 of 30 trainings are finished. 2 diverged and are left out: {names}."
    assert drawn(study).startswith(b"\x89PNG")
