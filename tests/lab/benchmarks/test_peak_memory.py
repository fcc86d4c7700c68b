"""Peak memory is what a piece of work takes at most, whatever others took before it."""

from functools import partial

import pytest
import torch

from resmlp_mt.lab.benchmarks import generation, memory, training
from resmlp_mt.lab.benchmarks.batches import Shape
from resmlp_mt.lab.benchmarks.comparison import Comparison
from resmlp_mt.lab.benchmarks.systems import TINY, Conditions, System

MEGABYTE = 1_000_000
COMPARISON = Comparison((System("transformer"),), size=TINY)


def fill(*megabytes):
    """Take these amounts, one after the other."""
    for amount in megabytes:
        torch.ones(amount * MEGABYTE, dtype=torch.uint8)


def test_the_peak_of_a_process_of_its_own():
    fill(300)  # is this process's, not the other's
    assert memory.peak(partial(fill, 40, 100, 20), fill, Conditions()) == pytest.approx(100 * MEGABYTE, rel=0.1)


def test_what_is_watched_runs():
    training.two_steps(COMPARISON, COMPARISON.systems[0], Shape(4, 2))
    generation.translate_alone(COMPARISON, COMPARISON.systems[0], None, generation.Piece([torch.tensor([5, 2])], 3))


def test_every_system_has_a_peak(monkeypatch):
    peaks = iter([100, 50])
    monkeypatch.setattr(memory, "peak", lambda work, rehearsal, conditions: next(peaks))
    comparison = Comparison((System("resmlp_transformer"), System("transformer")), size=TINY, rounds=1)
    assert [row.memory for row in training.train(comparison, [Shape(4, 2)])] == [100, 50]
