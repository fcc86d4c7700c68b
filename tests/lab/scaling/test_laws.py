"""The law of each family, fitted to runs made by known constants, and the trend of the difference between two."""

from dataclasses import replace

import numpy as np
import pytest
from made_runs import KAPLAN, kaplan_loss, made_runs
from scipy.stats import linregress, t

from resmlp_mt.lab.scaling import laws
from resmlp_mt.lab.scaling.laws import fit_family, fit_law, loss_by, points_of
from resmlp_mt.lab.scaling.study import Study, study_picture
from resmlp_mt.lab.scaling.trend import differences, trend

SIZES, AMOUNTS = np.geomspace(1e5, 1e8, 5), np.geomspace(1e6, 1e9, 5)


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(laws, "RESAMPLES", 60)


def test_known_constants_are_found_again():
    law = fit_law(points_of(made_runs("transformer", kaplan_loss, SIZES, AMOUNTS)))
    log_n, alpha, log_d, beta = law
    assert (alpha, beta) == pytest.approx((KAPLAN["alpha"], KAPLAN["beta"]), rel=1e-3)
    assert (log_n, log_d) == pytest.approx(np.log([KAPLAN["N_c"], KAPLAN["D_c"]]), rel=1e-3)
    assert loss_by(law, np.array([1e6]), np.array([1e7])) == pytest.approx(kaplan_loss(1e6, 1e7), rel=1e-5)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    covered, widths = {"alpha": 0, "beta": 0}, []
    for seed in range(40):
        fit = fit_family(made_runs("transformer", kaplan_loss, SIZES, AMOUNTS, 0.005, seed), seed)
        for name in covered:
            covered[name] += fit.constants[name].low <= KAPLAN[name] <= fit.constants[name].high
            widths.append(fit.constants[name].high - fit.constants[name].low)
        assert 0.002 < fit.misfit < 0.008 and fit.held_out.keys() == {"the largest size", "the largest amount of data"}
        assert all(0 < error < 0.02 for error in fit.held_out.values())
    assert all(times >= 34 for times in covered.values()) and max(widths) < 0.02, (covered, widths)


def test_the_spread_over_seeds_is_that_of_log_loss():
    [run] = made_runs("transformer", kaplan_loss, [1e5], [1e6])
    seeds = [replace(run, cell=replace(run.cell, seed=seed), losses=[loss]) for seed, loss in ((1, 2.0), (2, 2.2))]
    assert laws.seeds_spread(seeds) == pytest.approx(np.log(1.1) / np.sqrt(2))
    assert np.isnan(laws.seeds_spread([run]))


def test_the_trend_is_that_of_a_regression_and_crosses_where_both_are_equal():
    other = made_runs("transformer", kaplan_loss, SIZES, AMOUNTS)

    def loss(n, d):  # equal at D of 2^40 with the largest N
        of_size = (-0.02 + 0.001 * np.log2(d / AMOUNTS[2])) * np.log2(n / SIZES[-1])
        return kaplan_loss(n, d) + of_size + 0.01 * (np.log2(d) - 40)

    runs = [*other, *made_runs("gated", loss, SIZES, AMOUNTS, 3e-4)]
    cells = list(differences(runs, "gated", "transformer").values())
    found, (sizes, data, values) = trend(cells), np.array(cells).T
    assert found.cells == 25 and found.of_size.low < -0.02 < found.of_size.high < 0
    for slope, size in (found.of_data, SIZES[2]), (found.of_data_at_largest, SIZES[-1]):
        assert 0 < slope.low < 0.01 + 0.001 * np.log2(size / SIZES[-1]) < slope.high
    assert found.crossing.low < 2**40 < found.crossing.high < 4 * found.crossing.low
    for at in found.crossing.low, found.crossing.high:  # here one end of Student's interval of the difference is zero
        n, d = np.log2(sizes / SIZES[-1]), np.log2(data / at)
        x = np.stack([n**0, n, d, n * d], 1)
        fit, residual = np.linalg.lstsq(x, values)[:2]
        error = np.sqrt(residual[0] / (25 - 4) * np.linalg.inv(x.T @ x)[0, 0])
        assert abs(fit[0] / error) == pytest.approx(t.ppf(0.975, 25 - 4))
    # N and D of a full grid are not correlated: each slope is that of a regression on one of them
    alone = linregress(np.log2(data), values)
    assert found.of_data.value == pytest.approx(alone.slope) and found.mean.value == pytest.approx(np.mean(values))
    part = trend(cells[3:])  # not a full grid: compare with a regression on columns that are not centred
    n, d = np.log2(sizes[3:]), np.log2(data[3:])
    fit = np.linalg.lstsq(np.stack([n**0, n, d, n * d], 1), values[3:])[0]
    crossing = 2 ** -((fit[0] + fit[1] * n.max()) / (fit[2] + fit[3] * n.max()))
    assert (part.mean.value, part.crossing.value) == pytest.approx((np.mean(values[3:]), crossing))
    seed = replace(runs[-1], cell=replace(runs[-1].cell, seed=9), losses=[runs[-1].best + 1])  # in no other cell
    again = np.array(list(differences([*runs, seed], "gated", "transformer").values()))
    assert again - cells == pytest.approx(np.array([[0, 0, 0]] * 24 + [[0, 0, 0.5]]))


def test_no_crossing_without_a_trend_and_no_trend_of_few_cells():
    other = made_runs("transformer", kaplan_loss, SIZES, AMOUNTS)
    runs = [*other, *made_runs("gated", kaplan_loss, SIZES, AMOUNTS, 0.01)]
    cells = list(differences(runs, "gated", "transformer").values())
    found = trend(cells)
    assert found.of_data.low < 0 < found.of_data.high and found.crossing is None
    assert trend(cells[:4]) is None and trend(cells[:5]) is None  # all of one size
    assert (found := trend([*cells[:5], *cells[5::5]])).of_data == found.of_data_at_largest  # no other slope is known


def test_a_run_that_diverged_is_left_out_and_counted():
    runs = made_runs("transformer", kaplan_loss, SIZES, AMOUNTS)
    gone = replace(runs[0], cell=replace(runs[0].cell, seed=9), diverged=True)
    nothing = replace(gone, cell=replace(gone.cell, seed=8), updates=[], losses=[])
    others = made_runs("none", lambda n, d: kaplan_loss(n, d) + 0.1, SIZES, AMOUNTS[:2])
    families = {"transformer": fit_family([*runs, gone, nothing]), "none": fit_family(others)}
    assert families["transformer"].runs == runs
    line = "too few points for a fit: 10 runs of 5 sizes and 2 amounts of data; at least 7 of 3 and 3 are needed"
    assert families["none"].why_not == line
    study = Study("A study", 50, [*runs, gone, nothing, *others], families, 0.5, {"command": "scale"})
    names = f"{gone.cell.name}, {nothing.cell.name}"
    assert study.notes()[0] == f"37 of 50 trainings are finished. 2 diverged and are left out: {names}."
    tables = study.tables()
    assert tables["Loss minus that of transformer"][1] == ["none, n100000", "100,000", "+0.100", "+0.100"]
    assert len(tables["Lowest loss"]) == 1 + 10 and tables["Trends of the difference"][1][0] == "none minus transformer"
    assert study_picture(study).startswith(b"\x89PNG")
