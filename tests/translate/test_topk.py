"""The best scores of a sentence beside torch.topk."""

import pytest
import torch

from resmlp_mt.translate.search import BLOCK, LEAST, topk


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("width", [2, 3, LEAST - 1, LEAST, LEAST + 1, 50 * BLOCK, 4128 + 5])
def test_the_best_are_torch_topks(width, beams):
    torch.manual_seed(0)
    x = torch.randn(20 * beams, width)
    values, places = topk(x, 20, 2 * beams)
    expected = x.view(20, -1).topk(2 * beams, 1)
    torch.testing.assert_close((values, places), tuple(expected), rtol=0, atol=0)


@pytest.mark.parametrize("width", [3, 5 * BLOCK])
def test_more_than_there_are_blocks_or_scores(width):
    torch.manual_seed(0)
    x = torch.randn(6, width)
    expected = x.topk(min(12, width), 1)
    torch.testing.assert_close(topk(x, 6, 12, blocks=False), tuple(expected), rtol=0, atol=0)


@pytest.mark.parametrize("width", [20 * BLOCK, 20 * BLOCK + 5])
def test_all_places_are_of_the_row_where_most_is_impossible(width):
    x = torch.full((3, 4, width), -torch.inf)
    x[:, 3, -2] = 1.0
    values, places = topk(x.flatten(0, 1), 3, 8)
    assert values[:, 0].eq(1).all() and values[:, 1:].isneginf().all() and places[:, 0].eq(4 * width - 2).all()
    assert all(len(set(row)) == 8 and max(row) < 4 * width for row in places.tolist())


def test_equal_numbers_are_all_found():
    x = torch.zeros(2, 20 * BLOCK)
    x[0, 5:12] = x[1, 100 : 20 * BLOCK : 2 * BLOCK] = 1.0
    values, places = topk(x.view(8, -1), 2, 7)
    assert values.eq(1).all()
    assert sorted(places[0].tolist()) == [*range(5, 12)]
    assert len(set(places[1].tolist())) == 7 and (x[1, places[1]] == 1).all()


def test_the_other_sentences_never_change_one():
    torch.manual_seed(0)
    x = torch.randint(0, 30, (16, 4, 8 * BLOCK + 7)).float()  # many are equal
    together = topk(x.flatten(0, 1), 16, 8)[1]
    assert all(torch.equal(topk(x[row], 1, 8)[1][0], places) for row, places in enumerate(together))
