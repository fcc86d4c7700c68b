"""The best continuations beside all of them, sorted."""

import math

import pytest
import torch

from resmlp_mt.translate.ranking import Wanted, at_end, barred_places, ranked

PAD, EOS = 1, 2


def step(sentences, beams, symbols, beam, numbers=None, seed=0):
    torch.manual_seed(seed)
    logits = torch.randn(sentences * beams, symbols)
    scores = -torch.rand(sentences, beams)
    first = beams == 1
    wanted = Wanted(beam, PAD, EOS)
    barred = barred_places(torch.arange(symbols), wanted, numbers is not None, first)
    return logits, scores, ranked(logits, scores, wanted, barred, numbers, first)


def every(logits, scores, sentence, first, numbers=None):
    """All continuations of a sentence that are possible, best first: total, row, symbol."""
    beams, found = scores.size(1), []
    for beam in range(beams):
        row = sentence * beams + beam
        whole = math.log(sum(math.exp(x) for x in logits[row].tolist()))
        for place, logit in enumerate(logits[row].tolist()):
            symbol = place if numbers is None else int(numbers[sentence, place])
            if symbol != PAD and not (first and symbol == EOS):
                found.append((float(scores[sentence, beam]) + logit - whole, row, symbol))
    return sorted(found, reverse=True)


@pytest.mark.parametrize(("beams", "beam", "symbols"), [(1, 3, 12), (3, 3, 12), (3, 3, 500), (1, 1, 500), (2, 4, 30)])
def test_they_are_the_best_of_all(beams, beam, symbols):
    logits, scores, best = step(2, beams, symbols, beam)
    for sentence in range(2):
        expected = every(logits, scores, sentence, beams == 1)[: 2 * beam]
        assert best.totals[sentence].tolist() == pytest.approx([total for total, _, _ in expected], abs=1e-5)
        assert best.rows[sentence].tolist() == [row for _, row, _ in expected]
        assert best.symbols[sentence].tolist() == [symbol for _, _, symbol in expected]
        assert best.ends[sentence].tolist() == [symbol == EOS for _, _, symbol in expected]
        going_on = [number for number, (_, _, symbol) in enumerate(expected) if symbol != EOS]
        assert best.kept[sentence].tolist() == going_on[:beam]


@pytest.mark.parametrize("beams", [1, 2])
def test_candidates_have_numbers_of_their_own(beams):
    numbers = torch.tensor([[EOS, 7, 9, 11, 40, 41], [EOS, 5, 6, 8, 30, 31]])
    logits, scores, best = step(2, beams, 6, 2, numbers)
    for sentence in range(2):
        expected = every(logits, scores, sentence, beams == 1, numbers)[:4]
        assert best.symbols[sentence].tolist() == [symbol for _, _, symbol in expected]
        assert best.rows[sentence].tolist() == [row for _, row, _ in expected]


def test_what_is_impossible_does_not_end():
    _, _, best = step(1, 1, 4, 2)  # two of the four are padding and the end
    assert best.totals[0].isfinite().tolist() == [True, True, False, False]
    assert not best.ends.any()


def test_where_nothing_but_the_end_may_come():
    logits, scores, best = step(3, 2, 12, 2)
    found = at_end(best, torch.tensor([False, True, False]), EOS)
    for sentence in 0, 2:
        assert all(torch.equal(one[sentence], other[sentence]) for one, other in zip(found, best, strict=True))
    expected = [(total, row) for total, row, symbol in every(logits, scores, 1, False) if symbol == EOS]
    assert found.totals[1].tolist() == pytest.approx([*(total for total, _ in expected), -math.inf, -math.inf])
    assert found.rows[1, :2].tolist() == [row for _, row in expected]
    assert found.ends[1].tolist() == [True, True, False, False]
    assert found.symbols[1, :2].tolist() == [EOS, EOS]
