"""What the promises of tests/fairseq_plugin do not show of the gated mixing: its gate, and dropped entries of A."""

import pytest
import torch

from resmlp_mt.nn import Aff
from resmlp_mt.nn.gated_mixing import GatedTokenMixing
from resmlp_mt.nn.memory import product
from resmlp_mt.nn.token_mixing import TokenMixing


def mixing(**options):
    torch.manual_seed(0)
    gated = GatedTokenMixing(8, 12, heads=2, relative=True, **options)
    torch.nn.init.normal_(gated.weight)
    return gated


def test_beside_a_relative_term_a_starts_at_zero():
    assert not GatedTokenMixing(8, 12, relative=True).weight.any()
    assert GatedTokenMixing(8, 12).weight.all()


@torch.no_grad()
def test_a_closed_gate_takes_nothing_and_an_open_one_the_linear_mixing():
    gated, x = mixing(), torch.randn(5, 3, 8)
    gated.relative.normal_()
    gated.value_gate.weight[8:] = 0
    linear = TokenMixing(12, 2, True)
    linear.load_state_dict({name: getattr(gated, name) for name in ("weight", "bias", "relative")})
    values = x @ gated.value_gate.weight[:8].t()
    for bias, expected in (-40.0, torch.zeros(5, 3, 8)), (40.0, linear(values)):
        gated.value_gate.bias[8:] = bias
        torch.testing.assert_close(gated(x), expected @ gated.out_proj.weight.t() + gated.out_proj.bias)


@pytest.mark.parametrize("make", [mixing, lambda **options: TokenMixing(12, 2, True, **options)])
def test_entries_of_a_are_dropped_in_training_alone(make):
    dropping, whole = make(dropout=0.25), make()
    whole.load_state_dict(dropping.state_dict())
    assert torch.equal(dropping.eval().rows(0, 12), whole.rows(0, 12))
    rows = dropping.train().rows(0, 12)
    dropped = rows == 0
    assert 0.1 < dropped.double().mean() < 0.4
    torch.testing.assert_close(rows[~dropped], whole.rows(0, 12)[~dropped] / 0.75)
    assert not torch.equal(rows, dropping.rows(0, 12))


@pytest.mark.parametrize("causal", [False, True])
def test_a_band_is_zero_at_first_and_reads_its_neighbours_by_weights_of_its_own(causal):
    banded, plain, x = mixing(causal=causal, band=2), mixing(causal=causal), torch.randn(6, 1, 8)
    plain.load_state_dict({name: value for name, value in banded.state_dict().items() if "band" not in name})
    torch.testing.assert_close(banded(x), plain(x), rtol=0, atol=0)
    torch.nn.init.normal_(banded.band.predict.weight)
    banded.weight.data.zero_()
    values, weights = x.clone().requires_grad_(), banded.rows(0, 6) + banded.band.rows(x, 6)
    (grad,) = torch.autograd.grad(banded.finish(product(weights, values), weights)[3].sum(), values)
    assert grad.abs().sum((1, 2)).nonzero().flatten().tolist() == ([1, 2, 3] if causal else [1, 2, 3, 4, 5])
    weights = banded.band.predict(x[3, 0]).view(2, -1)  # of both heads, of four channels each
    torch.testing.assert_close(grad[1:6, 0].view(5, 2, 4)[: weights.size(1), :, 0], weights.t())


def test_weights_of_a_band_are_dropped_in_training_alone():
    x = torch.randn(6, 5, 8)
    dropping = mixing(band=2, dropout=0.25)
    torch.nn.init.normal_(dropping.band.predict.weight)
    band = dropping.band
    kept = band.eval().rows(x, 6)
    torch.testing.assert_close(kept, band.rows(x, 6), rtol=0, atol=0)
    mean = torch.stack([band.train().rows(x, 6) for _ in range(4000)]).mean(0)
    assert (band.rows(x, 6) != kept).any()
    torch.testing.assert_close(mean, kept, rtol=0, atol=0.25)


@torch.no_grad()
def test_folded_it_has_no_relative_term_and_no_aff():
    gated, x = mixing(causal=True), torch.randn(5, 3, 8)
    gated.relative.normal_()
    pre, post = Aff(8), Aff(8)
    for parameter in (*pre.parameters(), *post.parameters()):
        parameter.normal_()
    expected = post(gated(pre(x)))
    left, right = gated.fold_(pre, post)
    assert gated.relative is None and all(isinstance(each, torch.nn.Identity) for each in (left, right))
    torch.testing.assert_close(gated(x), expected)
