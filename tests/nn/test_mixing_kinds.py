"""What all kinds of token mixing promise. (Against plain equations: tests/fairseq_plugin/test_promises.py.)"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from resmlp_mt.nn import Aff, LayerConfig, Mixing
from resmlp_mt.nn.memory import Memory, PagedMemory
from resmlp_mt.nn.mixing_kinds import TOKEN_MIXINGS
from resmlp_mt.nn.positions import zero_padding

KINDS = [*(kind for kind in TOKEN_MIXINGS if kind != "none"), "linear with a head", "gated with a band"]
OF_A = "linear", "linear with a head", "gated", "gated with a band"
DIM = 4


def made(kind, causal, positions=8, kernel=3, seed=0):
    """A mixing whose every parameter is off its starting value."""
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


@pytest.mark.parametrize("causal", [False, True])
def test_none_is_none(causal):
    assert TOKEN_MIXINGS["none"](LayerConfig(DIM, 4 * DIM, 8, causal)) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_sentence_is_what_it_is_alone(kind):
    mixing, x, padding = made(kind, causal=False), random(6, 2), torch.zeros(6, 2, dtype=torch.bool)
    padding[4:, 1] = True
    out = mixing(zero_padding(x, padding), padding)
    assert torch.allclose(out[:4, 1:], mixing(x[:4, 1:]))
    assert torch.allclose(out[:, :1], mixing(x[:, :1]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_causal_one_reads_its_own_and_earlier_positions_and_another_later_ones_too(kind):
    for causal in False, True:
        x = random(6, 1).requires_grad_()
        (grad,) = torch.autograd.grad(made(kind, causal)(x)[2].sum(), x)
        read = grad.abs().sum((1, 2)).nonzero().flatten().tolist()
        if kind in (*OF_A, "mlp"):
            assert read == ([0, 1, 2] if causal else [0, 1, 2, 3, 4, 5])
        else:
            assert read == ([0, 1, 2] if causal else [1, 2, 3])


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
            got = mixing.mix(new, memory)
            assert torch.allclose(got, mixing(past)[-len(new) :])
        order = data.draw(st.lists(st.integers(0, past.size(1) - 1), min_size=1, max_size=4))
        past = past[:, order]
        memory.reorder(torch.tensor(order))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("before", [Aff, nn.LayerNorm])
@pytest.mark.parametrize("kind", KINDS)
def test_folding_changes_nothing_and_what_is_left_is_told(kind, before, causal):
    mixing, pre, post, x = made(kind, causal), before(DIM).double(), Aff(DIM).double(), random(6, 2)
    for parameter in [*pre.parameters(), *post.parameters()]:
        nn.init.normal_(parameter)
    padding = None
    if not causal:
        padding = torch.zeros(6, 2, dtype=torch.bool)
        padding[3:, 0] = True
    expected = zero_padding(post(mixing(zero_padding(pre(x), padding), padding)), padding)
    left = mixing.fold_(pre, post)
    folded = left[1](mixing(zero_padding(left[0](x), padding), padding))
    assert torch.allclose(zero_padding(folded, padding), expected)  # what stands at padding is never read
    assert (left[0] is pre) == (left[1] is post) == (kind not in OF_A)


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
