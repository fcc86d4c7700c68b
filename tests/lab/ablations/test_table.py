"""The table, from made-up figures; Welch's interval, compared with the formula."""

import json
import math

import numpy
import pytest
from scipy.stats import t

from resmlp_mt.lab.ablations.table import Difference, Figures, Table, difference
from resmlp_mt.lab.trainings.log import TrainingFigures


def figures(name, bleu, p_value=None, perplexity=6.0, seconds=120.0, words=3000.0, seed=1):
    found = {"sacrebleu": (bleu, "nrefs:1|tok:13a"), "chrf2": (60.0, "nrefs:1|nc:6")}
    scores = {metric: {"score": score, "signature": how} for metric, (score, how) in found.items()}
    bootstrap = None if p_value is None else {"sacrebleu": {"p_value": p_value}, "chrf2": {"p_value": 0.2}}
    training = TrainingFigures(perplexity, 3_539_200, words)
    return Figures(name, seed, f"--token-mixing {name}", training, seconds, {"on": "today"}, scores, bootstrap)


def test_marks_blanks_and_units():
    rows = [
        figures("linear", 36.0),
        figures("none", 20.04, 0.001, perplexity=12.345, seconds=5400),
        figures("conv", 36.3, 0.2),
        figures("twin", 36.0, 1.0),
    ]
    names = ["linear", "none", "mlp", "conv", "twin"]
    table = Table("Mixing", "linear", "14 epochs", "test, test.de", {"Made by": "hand"}, rows, names)
    cells = {row[0]: row[1:] for row in table.cells()}
    assert cells["none"] == ["12.35", "20.0*", "60.0", "3,539,200", "3,000", "1.50 h"]
    assert cells["linear"] == ["6.00", "36.0", "60.0", "3,539,200", "3,000", "2.0 min"]
    assert (cells["conv"][1], cells["twin"][1]) == ("36.3", "36.0")
    assert set(cells["mlp"]) == {""}
    assert list(cells)[1:] == ["linear", "none", "mlp", "conv", "twin"]
    text = table.as_text()
    assert "*: differs from linear, paired bootstrap, p < 0.05." in text
    assert "sacreBLEU: nrefs:1|tok:13a" in text
    assert "Trained (linear, none, conv, twin): on today." in table.as_markdown()
    assert json.loads(json.dumps(table.as_json()))["figures"][1]["training"]["perplexity"] == 12.345


@pytest.mark.parametrize("row", [[38.1, 38.9], [38.3, 38.3, 38.3]])
def test_welch_s_interval_is_that_of_the_formula(row):
    baseline = [36.0, 37.9, 36.9]
    variances = [numpy.var(side, ddof=1) / len(side) for side in (row, baseline)]
    degrees = sum(variances) ** 2 / sum(
        variance**2 / (len(side) - 1) for variance, side in zip(variances, (row, baseline), strict=True)
    )
    half = t.ppf(0.975, degrees) * math.sqrt(sum(variances))
    mean = numpy.mean(row) - numpy.mean(baseline)
    found = difference(row, baseline)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - half, mean + half))


@pytest.mark.parametrize(("row", "baseline"), [([38.0], [37.0, 37.5]), ([38.0, 39.0], [37.0]), ([5.4] * 2, [5.1] * 2)])
def test_without_a_variance_there_is_no_interval(row, baseline):
    found = difference(row, baseline)
    assert found == Difference(pytest.approx(numpy.mean(row) - numpy.mean(baseline)))
    assert not found.significant
