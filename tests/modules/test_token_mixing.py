import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from resmlp_mt.errors import UserError
from resmlp_mt.modules import Aff, CausalTokenMixing, TokenMixing


def mixing(cls, positions=8, seed=0):
    torch.manual_seed(seed)
    result = cls(positions).double()
    torch.nn.init.normal_(result.bias)
    return result


def by_hand(module, x, causal):
    """One position and one sentence at a time."""
    out = torch.empty_like(x)
    for t in range(x.size(0)):
        for b in range(x.size(1)):
            last = t + 1 if causal else x.size(0)
            out[t, b] = sum(module.weight[t, s] * x[s, b] for s in range(last)) + module.bias[t]
    return out


@pytest.mark.parametrize("cls", [TokenMixing, CausalTokenMixing])
@pytest.mark.parametrize("length", [1, 5, 8])
def test_it_is_a_linear_layer_over_positions(cls, length):
    module, x = mixing(cls), torch.randn(length, 3, 4, dtype=torch.double)
    assert torch.allclose(module(x), by_hand(module, x, cls is CausalTokenMixing))


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
    module, positions = mixing(CausalTokenMixing, 40), data.draw(st.integers(1, 40))
    batch = data.draw(st.integers(1, 4))
    past = torch.empty(0, batch, 3, dtype=torch.double)
    state = {}
    while past.size(0) < positions:
        step = min(data.draw(st.integers(1, 3)), positions - past.size(0))
        new = torch.randn(step, past.size(1), 3, dtype=torch.double)
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
        assert cache["past"] is before and torch.equal(kept, before)
        sizes.append(before.size(1))
        past = past[:, order]
    assert sizes == [6, 6, 6, 6, 2]


def test_a_step_beyond_the_last_position_is_refused():
    module, state = mixing(CausalTokenMixing, 4), {}
    module(torch.randn(4, 1, 3, dtype=torch.double), incremental_state=state)
    with pytest.raises(UserError, match=r"5 positions.*has 4.*--max-target-positions 5"):
        module(torch.randn(1, 1, 3, dtype=torch.double), incremental_state=state)


@pytest.mark.parametrize("cls", [TokenMixing, CausalTokenMixing])
@pytest.mark.parametrize("padded", [False, True])
def test_folding_the_affines_beside_it_changes_nothing(cls, padded):
    if padded and cls is CausalTokenMixing:
        pytest.skip("padding follows every sentence in the decoder, where causal mixing does not look")
    module, pre, post = mixing(cls), Aff(4).double(), Aff(4).double()
    for parameter in [*pre.parameters(), *post.parameters()]:
        torch.nn.init.normal_(parameter)
    x, padding = torch.randn(6, 2, 4, dtype=torch.double), None
    if padded:
        padding = torch.zeros(6, 2, dtype=torch.bool)
        padding[3:, 0] = True
    expected = post(module(module.readable(pre(x), padding), padding))
    module.fold_(pre, post)
    assert torch.allclose(module(module.readable(x, padding), padding), expected)
