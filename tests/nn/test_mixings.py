"""Promises of all kinds of token mixing. (Compared with equations in tests/fairseq_plugin/test_promises.py.)"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from resmlp_mt.nn import Aff, LayerConfig, Mixing, TokenMixing
from resmlp_mt.nn.gated_mixing import GatedTokenMixing
from resmlp_mt.nn.memory import Memory, PagedMemory
from resmlp_mt.nn.mixing_kinds import TOKEN_MIXINGS
from resmlp_mt.nn.positions import zero_padding

KINDS = [*(kind for kind in TOKEN_MIXINGS if kind != "none"), "linear with a head", "gated with a band"]
DIM = 4


def made(kind, causal, positions=8, kernel=3, seed=0):
    """Return a mixing in which no parameter has its starting value."""
    torch.manual_seed(seed)
    kind, _, more = kind.partition(" with a ")
    options = {"mixing_heads": 1 if more == "head" else 2, "mixing_band": kernel if more == "band" else 0}
    options |= {"mixing_relative": True, "mixing_expansion": 2, "mixing_kernel": kernel}
    mixing = TOKEN_MIXINGS[kind](LayerConfig(DIM, 4 * DIM, positions, causal, token_mixing=kind, **options)).double()
    with torch.no_grad():
        for parameter in mixing.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return mixing


def random(*shape):
    return torch.randn(*shape, DIM, dtype=torch.double)


@settings(max_examples=30, deadline=None)
@given(st.data())
@pytest.mark.parametrize("memory_kind", [Memory, PagedMemory])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_with_reordered_and_dropped_beams_equal_all_at_once(kind, memory_kind, data):
    mixing = made(kind, True, 40, data.draw(st.sampled_from([1, 3, 5])), data.draw(st.integers(0, 1000)))
    past, memory = random(0, data.draw(st.integers(1, 4))), memory_kind()
    for _ in range(data.draw(st.integers(1, 12))):
        new = random(data.draw(st.integers(1, 3)), past.size(1))
        past = torch.cat([past, new])
        with torch.no_grad():
            assert torch.allclose(mixing.mix(new, memory), mixing(past)[-len(new) :])
        order = data.draw(st.lists(st.integers(0, past.size(1) - 1), min_size=1, max_size=4))
        past = past[:, order]
        memory.reorder(torch.tensor(order))


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_precision_changes_outputs_by_rounding_alone(kind):
    mixing, x = made(kind, True).float(), random(6, 2).float().requires_grad_()
    expected = mixing(x)
    with torch.autocast(x.device.type, torch.bfloat16):
        y = mixing(x)
    y.float().sum().backward()
    assert (y.float() - expected).abs().max() < 0.015 * expected.abs().max() and bool(x.grad.isfinite().all())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("before", [Aff, nn.LayerNorm])
@pytest.mark.parametrize("kind", KINDS)
def test_folding_changes_nothing_and_what_is_left_is_told(kind, before, causal):
    mixing, pre, post, x = made(kind, causal), before(DIM).double(), Aff(DIM).double(), random(6, 2)
    for parameter in [*pre.parameters(), *post.parameters()]:
        nn.init.normal_(parameter)
    padding = None if causal else torch.tensor([[False, False]] * 3 + [[True, False]] * 3)  # 6 x 2
    expected = zero_padding(post(mixing(zero_padding(pre(x), padding), padding)), padding)
    left = mixing.fold_(pre, post)
    folded = left[1](mixing(zero_padding(left[0](x), padding), padding))
    assert torch.allclose(zero_padding(folded, padding), expected)  # outputs at padding are never read
    assert (left[0] is pre) == (type(mixing).fold_ is Mixing.fold_)
    assert (left[1] is post) == (left[0] is pre or kind == "ssru")  # ssru ends with a ReLU


def test_a_kind_of_its_own_needs_no_more_than_forward():
    class Means(Mixing):
        """The mean of all positions so far."""

        def forward(self, x, padding=None):
            return x.cumsum(0) / torch.arange(1, len(x) + 1)[:, None, None]

    mixing, x, memory, got = Means(), random(5, 2), PagedMemory(), []
    for t in range(5):
        got.append(mixing.mix(x[t : t + 1], memory))
        memory.reorder(torch.tensor([1, 0]))
        x = x.flip(1)
        got = [each.flip(1) for each in got]
    assert torch.allclose(torch.cat(got), mixing(x))


def gated(**options):
    torch.manual_seed(0)
    made = GatedTokenMixing(8, 12, heads=2, relative=True, **options)
    torch.nn.init.normal_(made.weight)
    return made


def test_beside_a_relative_term_a_starts_at_zero_and_a_band_in_any_case():
    assert not GatedTokenMixing(8, 12, relative=True).weight.any()
    assert GatedTokenMixing(8, 12).weight.all()
    assert not any(each.any() for each in gated(band=2).band.parameters())


@pytest.mark.parametrize("make", [gated, lambda **options: TokenMixing(12, 2, True, **options)])
def test_entries_of_a_are_dropped_in_training_alone(make):
    dropping, whole = make(dropout=0.25), make()
    whole.load_state_dict(dropping.state_dict())
    assert torch.equal(dropping.eval().rows(0, 12), whole.rows(0, 12))
    rows = dropping.train().rows(0, 12)
    dropped = rows == 0
    assert 0.1 < dropped.double().mean() < 0.4
    torch.testing.assert_close(rows[~dropped], whole.rows(0, 12)[~dropped] / 0.75)
    assert not torch.equal(rows, dropping.rows(0, 12))


def test_weights_of_a_band_are_dropped_in_training_alone():
    x, band = torch.randn(6, 5, 8), gated(band=2, dropout=0.25).band
    torch.nn.init.normal_(band.predict.weight)
    kept = band.eval().rows(x, 6)
    torch.testing.assert_close(kept, band.rows(x, 6), rtol=0, atol=0)
    rows = band.train().rows(x, 6)
    torch.testing.assert_close(rows[rows != 0], kept[rows != 0] / 0.75)
    assert 0.1 < (rows == 0)[kept != 0].double().mean() < 0.4
