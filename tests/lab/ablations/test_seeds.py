"""Means, standard deviations and Welch's interval, beside the formulas."""

import math

import numpy
import pytest
from scipy.stats import t

from resmlp_mt.lab.ablations.seeds import Difference, SeedSpread, difference, spread


def test_the_standard_deviation_is_that_of_a_sample():
    found = spread([37.0, 38.0, 38.6])
    assert found == SeedSpread(pytest.approx(37.8667, abs=1e-4), pytest.approx(0.8083, abs=1e-4))  # by hand, n - 1
    assert spread([37.0]) == SeedSpread(37.0, None)


def test_with_equal_variances_and_sizes_welch_s_interval_is_student_s():
    found = difference([4.0, 5.0, 6.0], [1.0, 2.0, 3.0])
    half = 2.7764 * math.sqrt(2 / 3)  # a table's t for 4 degrees of freedom and 95 %
    assert (found.mean, found.low, found.high) == pytest.approx((3, 3 - half, 3 + half), abs=1e-3)
    assert found.told
    assert not difference([4.0, 5.0, 6.0], [2.0, 3.0, 6.0]).told


@pytest.mark.parametrize("row", [[38.1, 38.9], [38.3, 38.3, 38.3], [5.42, 5.1, 5.9, 5.7]])
@pytest.mark.parametrize("baseline", [[36.0, 37.9, 36.9], [5.4, 5.6]])
def test_welch_s_interval_is_that_of_the_formula(row, baseline):
    variances = [numpy.var(side, ddof=1) / len(side) for side in (row, baseline)]
    degrees = sum(variances) ** 2 / sum(
        variance**2 / (len(side) - 1) for variance, side in zip(variances, (row, baseline), strict=True)
    )
    half = t.ppf(0.975, degrees) * math.sqrt(sum(variances))
    mean = numpy.mean(row) - numpy.mean(baseline)
    found = difference(row, baseline)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - half, mean + half))


@pytest.mark.parametrize(
    ("row", "baseline"), [([38.0], [37.0]), ([38.0], [37.0, 37.5]), ([38.0, 39.0], [37.0]), ([5.4, 5.4], [5.1, 5.1])]
)
def test_without_a_variance_there_is_no_interval(row, baseline):
    found = difference(row, baseline)
    assert found == Difference(pytest.approx(numpy.mean(row) - numpy.mean(baseline)))
    assert not found.told
