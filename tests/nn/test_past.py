"""The past of a mixing, summed by weights, beside the equation written out."""

import pytest
import torch

from resmlp_mt.nn.past import append, reorder, weighted_sum, weighted_sum_by_one_loop


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("sum_", [weighted_sum, weighted_sum_by_one_loop])
def test_each_beam_sums_its_own_past(sum_, heads):
    torch.manual_seed(0)
    inputs, orders = torch.randn(3, 1, 5, 8), [[0, 1, 2, 3, 4], [4, 4, 0, 1, 2], [1, 0, 3, 3, 2]]
    past, known = [], [[] for _ in range(5)]
    for x, order in zip(inputs, orders, strict=True):
        past = append(reorder(past, torch.tensor(order)), x, limit=6)
        known = [[*known[beam], x[0, row]] for row, beam in enumerate(order)]
    weights = torch.randn(5, heads, 3)
    expected = torch.zeros(5, 8)
    for beam in range(5):
        for channel in range(8):
            head = channel * heads // 8
            expected[beam, channel] = sum(weights[beam, head, time] * known[beam][time][channel] for time in range(3))
    torch.testing.assert_close(sum_(past, weights), expected)
