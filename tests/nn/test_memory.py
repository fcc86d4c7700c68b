"""What a mixing remembers, summed by weights, beside the equation written out."""

import pytest
import torch

from resmlp_mt.nn.memory import Memory, PagedMemory, sum_in_one_loop


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("kind", ["plain", "paged", "paged, as it is compiled"])
def test_each_beam_sums_its_own_past(kind, heads):
    torch.manual_seed(0)
    inputs, orders = torch.randn(3, 1, 5, 8), [[0, 1, 2, 3, 4], [4, 4, 0, 1, 2], [1, 0, 3, 3, 2]]
    memory, known = Memory() if kind == "plain" else PagedMemory(), [[] for _ in range(5)]
    for x, order in zip(inputs, orders, strict=True):
        memory.reorder(torch.tensor(order))
        memory.remember(x)
        known = [[*known[beam], x[0, row]] for row, beam in enumerate(order)]
    weights = torch.randn(5, heads, 1, 3)
    expected = torch.zeros(1, 5, 8)
    for beam in range(5):
        for channel in range(8):
            head = channel * heads // 8
            expected[0, beam, channel] = sum(weights[beam, head, 0, t] * known[beam][t][channel] for t in range(3))
    if kind.endswith("compiled"):
        found = sum_in_one_loop(*memory.tensors, weights.squeeze(2)).unsqueeze(0)
    else:
        found = memory.mixed(weights)
    torch.testing.assert_close(found, expected)
