"""The order in which systems take turns, and how medians, quartiles and ratios are computed."""

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resmlp_mt.lab.benchmarks import measuring
from resmlp_mt.lab.benchmarks.measuring import Quartiles

POSITIVE = st.floats(1e-6, 1e6)


@given(st.lists(POSITIVE, min_size=2, max_size=20))
def test_quartiles_are_those_of_statistics(values):
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    found = Quartiles.of(values)
    assert (found.low, found.median, found.high) == pytest.approx((low, median, high))


def test_turns_alternate_within_a_piece_and_turn_round_every_round(monkeypatch):
    expected = [
        (0, 0, "a"), (0, 0, "b"), (0, 1, "a"), (0, 1, "b"),
        (1, 0, "b"), (1, 0, "a"), (1, 1, "b"), (1, 1, "a"),
        (2, 0, "a"), (2, 0, "b"), (2, 1, "a"), (2, 1, "b"),
    ]  # fmt: skip
    assert list(measuring.turns("ab", 2, 3)) == expected

    clock, done = itertools.count(), []
    monkeypatch.setattr(measuring, "timer", lambda: next(clock))
    work = {name: measuring.timed(lambda piece, name=name: done.append((piece, name))) for name in "ab"}
    times = measuring.measure(work, pieces=2, rounds=2, warmup=1)
    assert done == [each[1:] for each in expected[:4] + expected[:8]]  # the first round does not count
    assert times == {"a": [[1, 1], [1, 1]], "b": [[1, 1], [1, 1]]}


@given(st.lists(st.tuples(POSITIVE, POSITIVE, POSITIVE, POSITIVE), min_size=2, max_size=9))
def test_ratios_are_of_the_same_round(rounds):
    ours, theirs = [[a, b] for a, b, _, _ in rounds], [[c, d] for _, _, c, d in rounds]
    assert measuring.speed_ratio(ours, theirs) == Quartiles.of([(c + d) / (a + b) for a, b, c, d in rounds])
    assert measuring.speed_ratio(ours, ours) == Quartiles(1, 1, 1)
    assert measuring.per_second(10, ours) == Quartiles.of([10 / (a + b) for a, b, _, _ in rounds])
