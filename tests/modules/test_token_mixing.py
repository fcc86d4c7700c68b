import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from resmlp_mt.errors import UserError
from resmlp_mt.modules import Aff, CausalTokenMixing, TokenMixing

EVERY = {"heads": [1, 2, 4], "relative": [False, True]}


def mixing(cls, positions=8, seed=0, **options):
    torch.manual_seed(seed)
    result = cls(positions, **options).double()
    nn.init.normal_(result.bias)
    if result.relative is not None:
        nn.init.normal_(result.relative)
    return result


def for_every(function):
    for name, values in EVERY.items():
        function = pytest.mark.parametrize(name, values)(function)
    return function


def by_hand(module, x, causal):
    """One position, one sentence and one channel at a time."""
    out, positions = torch.empty_like(x), module.max_positions
    weight, bias = module.weight.view(-1, positions, positions), module.bias.view(-1, positions)
    heads, (length, batch, channels) = len(weight), x.shape
    for t, b, c in itertools.product(range(length), range(batch), range(channels)):
        head, out[t, b, c] = c * heads // channels, 0
        for s in range(t + 1 if causal else length):
            relative = 0 if module.relative is None else module.relative.view(heads, -1)[head, s - t + positions - 1]
            out[t, b, c] += (weight[head, t, s] + relative) * x[s, b, c]
        out[t, b, c] += bias[head, t]
    return out


@for_every
@pytest.mark.parametrize("cls", [TokenMixing, CausalTokenMixing])
@pytest.mark.parametrize("length", [1, 5, 8])
def test_it_is_a_linear_layer_over_positions(cls, length, heads, relative):
    module, x = mixing(cls, heads=heads, relative=relative), torch.randn(length, 3, 4, dtype=torch.double)
    with torch.no_grad():
        assert torch.allclose(module(x), by_hand(module, x, cls is CausalTokenMixing))


@pytest.mark.parametrize("cls", [TokenMixing, CausalTokenMixing])
def test_the_relative_term_starts_at_zero(cls):
    for heads, shape in (1, ()), (2, (2,)):
        module = cls(8, heads, True)
        assert module.relative.shape == (*shape, 8 if cls is CausalTokenMixing else 15)
        assert (module.relative == 0).all()


def test_gradients_reach_distances_within_the_batch_only():
    for cls, reached in (TokenMixing, range(3, 12)), (CausalTokenMixing, range(3, 8)):
        module = mixing(cls, heads=2, relative=True)
        module(torch.randn(5, 2, 4, dtype=torch.double)).square().sum().backward()
        for grad in module.relative.grad:
            assert grad.nonzero().flatten().tolist() == list(reached)  # distances -4 to 4, or to 0


def test_padded_positions_are_read_as_zero_whatever_they_hold():
    module, x = mixing(TokenMixing), torch.randn(6, 2, 4, dtype=torch.double)
    padding = torch.zeros(6, 2, dtype=torch.bool)
    padding[4:, 1] = True
    out = module(module.readable(x, padding), padding)
    assert torch.allclose(out[:4, 1:], module(x[:4, 1:]))
    assert torch.allclose(out[:, :1], module(x[:, :1]))


def test_no_gradient_above_the_diagonal_or_outside_the_batch():
    module, x = mixing(CausalTokenMixing), torch.randn(5, 2, 4, dtype=torch.double)
    module(x).square().sum().backward()
    reached = module.weight.grad != 0
    expected = torch.zeros(8, 8, dtype=torch.bool)
    expected[:5, :5] = torch.ones(5, 5).tril().bool()
    assert torch.equal(reached, expected)
    assert (module.weight.triu(1) == 0).all()


def test_no_gradient_outside_the_batch_without_causality():
    module = mixing(TokenMixing)
    module(torch.randn(5, 2, 4, dtype=torch.double)).square().sum().backward()
    assert (module.weight.grad[:5, :5] != 0).all()
    assert (module.weight.grad[5:] == 0).all() and (module.weight.grad[:, 5:] == 0).all()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_steps_with_reordered_and_dropped_beams_equal_all_at_once(data):
    """Positions come one or several at a time; between them beams are copied, permuted and dropped."""
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    options = {name: data.draw(st.sampled_from(values)) for name, values in EVERY.items()}
    module, positions = mixing(CausalTokenMixing, 40, **options), data.draw(st.integers(1, 40))
    if data.draw(st.booleans()):
        module.fold_(Aff(4).double(), Aff(4, 0.5).double())
    batch = data.draw(st.integers(1, 4))
    past = torch.empty(0, batch, 4, dtype=torch.double)
    state = {}
    while past.size(0) < positions:
        step = min(data.draw(st.integers(1, 3)), positions - past.size(0))
        new = torch.randn(step, past.size(1), 4, dtype=torch.double)
        past = torch.cat([past, new])
        assert torch.allclose(module(new, incremental_state=state), module(past)[-step:])
        order = data.draw(st.lists(st.integers(0, past.size(1) - 1), min_size=1, max_size=4))
        past = past[:, order]
        module.reorder_incremental_state(state, torch.tensor(order))


def test_the_cache_holds_past_inputs_only_and_grows_by_doubling():
    module, state, buffers = mixing(CausalTokenMixing, 40), {}, []
    for _ in range(40):
        module(torch.randn(1, 2, 3, dtype=torch.double), incremental_state=state)
        (cache,) = state.values()
        assert set(cache) == {"past", "rows"}
        if not buffers or cache["past"].data_ptr() != buffers[-1].data_ptr():
            buffers.append(cache["past"])
    assert [len(buffer) for buffer in buffers] == [16, 32, 40]


def test_no_row_moves_when_beams_change_places_and_the_buffer_shrinks_with_the_batch():
    module, state, past = mixing(CausalTokenMixing, 16), {}, torch.empty(0, 6, 3, dtype=torch.double)
    orders = [[0, 0, 2, 1, 5, 4], [1, 1, 0, 2, 2, 3], [5, 3, 2, 1], [3, 1], [1, 0]]
    sizes = []
    for order in orders:
        new = torch.randn(1, past.size(1), 3, dtype=torch.double)
        past = torch.cat([past, new])
        assert torch.allclose(module(new, incremental_state=state), module(past)[-1:])
        (cache,) = state.values()
        before = cache["past"]
        kept = before.clone()
        module.reorder_incremental_state(state, torch.tensor(order))
        assert cache["past"] is before and torch.allclose(kept, before, 0, 0, equal_nan=True)  # unwritten rows too
        sizes.append(before.size(1))
        past = past[:, order]
    assert sizes == [6, 6, 6, 6, 2]


def test_a_step_beyond_the_last_position_is_refused():
    module, state = mixing(CausalTokenMixing, 4), {}
    module(torch.randn(4, 1, 3, dtype=torch.double), incremental_state=state)
    with pytest.raises(UserError, match=r"5 positions.*has 4.*--max-target-positions 5"):
        module(torch.randn(1, 1, 3, dtype=torch.double), incremental_state=state)


@for_every
@pytest.mark.parametrize("before", [Aff, nn.LayerNorm])
@pytest.mark.parametrize("cls", [TokenMixing, CausalTokenMixing])
@pytest.mark.parametrize("padded", [False, True])
def test_folding_what_is_beside_it_changes_nothing(cls, padded, before, heads, relative):
    if padded and cls is CausalTokenMixing:
        pytest.skip("padding follows every sentence in the decoder, where causal mixing does not look")
    module, pre, post = mixing(cls, heads=heads, relative=relative), before(4).double(), Aff(4).double()
    for parameter in [*pre.parameters(), *post.parameters()]:
        nn.init.normal_(parameter)
    x, padding = torch.randn(6, 2, 4, dtype=torch.double), None
    if padded:
        padding = torch.zeros(6, 2, dtype=torch.bool)
        padding[3:, 0] = True
    expected = post(module(module.readable(pre(x), padding), padding))
    left = module.fold_(pre, post)
    assert left[0](x).equal(x if before is Aff else nn.functional.layer_norm(x, (4,))) and left[1](x).equal(x)
    assert module.fold_(*left) == left
    assert torch.allclose(module(module.readable(left[0](x), padding), padding), expected)
