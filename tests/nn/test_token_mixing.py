import itertools

import pytest
import torch
from torch import nn

from resmlp_mt.nn import TokenMixing
from resmlp_mt.nn.memory import PagedMemory

EVERY = {"heads": [1, 2, 4], "relative": [False, True]}


def mixing(causal, positions=8, seed=0, **options):
    torch.manual_seed(seed)
    result = TokenMixing(positions, causal=causal, **options).double()
    nn.init.normal_(result.bias)
    if result.relative is not None:
        nn.init.normal_(result.relative)
    return result


def for_every(function):
    for name, values in EVERY.items():
        function = pytest.mark.parametrize(name, values)(function)
    return function


def by_hand(module, x):
    """One position, one sentence and one channel at a time."""
    out, positions = torch.empty_like(x), module.max_positions
    weight, bias = module.weight.view(-1, positions, positions), module.bias.view(-1, positions)
    heads, (length, batch, channels) = len(weight), x.shape
    for t, b, c in itertools.product(range(length), range(batch), range(channels)):
        head, out[t, b, c] = c * heads // channels, 0
        for s in range(t + 1 if module.causal else length):
            relative = 0 if module.relative is None else module.relative.view(heads, -1)[head, s - t + positions - 1]
            out[t, b, c] += (weight[head, t, s] + relative) * x[s, b, c]
        out[t, b, c] += bias[head, t]
    return out


@for_every
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 5, 8])
def test_it_is_a_linear_layer_over_positions(causal, length, heads, relative):
    module, x = mixing(causal, heads=heads, relative=relative), torch.randn(length, 3, 4, dtype=torch.double)
    with torch.no_grad():
        assert torch.allclose(module(x), by_hand(module, x))


def test_gradients_reach_distances_within_the_batch_only():
    for causal, reached in (False, range(3, 12)), (True, range(3, 8)):
        module = mixing(causal, heads=2, relative=True)
        module(torch.randn(5, 2, 4, dtype=torch.double)).square().sum().backward()
        for grad in module.relative.grad:
            assert grad.nonzero().flatten().tolist() == list(reached)  # distances -4 to 4, or to 0


@pytest.mark.parametrize("causal", [False, True])
def test_no_gradient_above_the_diagonal_or_outside_the_batch(causal):
    module, x = mixing(causal), torch.randn(5, 2, 4, dtype=torch.double)
    module(x).square().sum().backward()
    expected = torch.zeros(8, 8, dtype=torch.bool)
    expected[:5, :5] = torch.ones(5, 5).tril(0 if causal else 5).bool()
    assert torch.equal(module.weight.grad != 0, expected)
    assert bool((module.weight.triu(1) == 0).all()) == causal


def test_no_row_moves_when_beams_change_places_and_the_buffer_shrinks_with_the_batch():
    module, memory, past = mixing(True, 16), PagedMemory(), torch.empty(0, 6, 3, dtype=torch.double)
    orders = [[0, 0, 2, 1, 5, 4], [1, 1, 0, 2, 2, 3], [5, 3, 2, 1], [3, 1], [1, 0]]
    sizes = []
    for order in orders:
        new = torch.randn(1, past.size(1), 3, dtype=torch.double)
        past = torch.cat([past, new])
        assert torch.allclose(module.mix(new, memory), module(past)[-1:])
        before, copy = memory.tensors[0], memory.tensors[0].clone()
        memory.reorder(torch.tensor(order))
        assert memory.tensors[0] is before and torch.allclose(copy, before, 0, 0, equal_nan=True)  # unwritten too
        sizes.append(before.size(1))
        past = past[:, order]
    assert sizes == [6, 6, 6, 6, 2]
