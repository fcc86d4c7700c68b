"""The best of each row beside torch.topk."""

import pytest
import torch

from resmlp_mt.translation.topk import BLOCK, topk


@pytest.mark.parametrize("k", [1, 8])
@pytest.mark.parametrize("width", [3, 2 * 8 * BLOCK, 2 * 8 * BLOCK + 1, 50 * BLOCK, 4 * 4128 + 5])
def test_the_best_are_torch_topks(width, k):
    torch.manual_seed(0)
    x = torch.randn(20, width)
    values, places = topk(x, k)
    expected = x.topk(min(k, width), 1)
    torch.testing.assert_close((values, places), tuple(expected), rtol=0, atol=0)


@pytest.mark.parametrize("width", [20 * BLOCK, 20 * BLOCK + 5])
def test_all_places_are_of_the_row_where_most_is_impossible(width):
    x = torch.full((3, width), -torch.inf)
    x[:, -2] = 1.0
    values, places = topk(x, 8)
    assert values[:, 0].eq(1).all() and values[:, 1:].isneginf().all() and places[:, 0].eq(width - 2).all()
    assert all(len(set(row)) == 8 and max(row) < width for row in places.tolist())


def test_equal_numbers_are_all_found():
    x = torch.zeros(2, 20 * BLOCK)
    x[0, 5:12] = x[1, 100 : 20 * BLOCK : 2 * BLOCK] = 1.0
    values, places = topk(x, 7)
    assert values.eq(1).all()
    assert sorted(places[0].tolist()) == [*range(5, 12)]
    assert len(set(places[1].tolist())) == 7 and (x[1, places[1]] == 1).all()


def test_the_other_rows_never_change_a_row():
    torch.manual_seed(0)
    x = torch.randint(0, 30, (16, 30 * BLOCK + 7)).float()  # many are equal
    assert all(torch.equal(topk(x[[row]], 8)[1][0], places) for row, places in enumerate(topk(x, 8)[1]))
