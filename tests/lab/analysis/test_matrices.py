"""A of a model, its profile and its sparsity, against what the mixing does and plain formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import untrained

from resmlp_mt.lab.analysis.matrices import (
    MixingMatrix,
    mixing_matrices,
    profiles,
    share_of_small,
    sparsity_of_mixing,
    sparsity_over_channels,
)
from resmlp_mt.nn import TokenMixing
from resmlp_mt.nn.mixing_kinds import MLPTokenMixing


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("relative", [False, True])
def test_a_is_what_the_mixing_does_to_unit_vectors(side, heads, relative):
    model = untrained(encoder_layers=3, mixing_heads=heads, mixing_relative=relative)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".mixing.mixing." in name:
                parameter.normal_()  # above the diagonal of a causal A too
    found = {mixing.name: mixing for mixing in mixing_matrices(model)}
    assert list(found) == ["encoder 1", "encoder 2", "encoder 3", "decoder 1", "decoder 2"]
    for number, layer in enumerate(getattr(model, side).layers):
        mixing = layer.mixing.mixing
        unit = torch.eye(64)[:, :, None].repeat(1, 1, heads)  # the sentence k has ones at position k, for each head
        expected = (mixing(unit) - mixing(torch.zeros_like(unit))).permute(2, 0, 1)
        assert torch.allclose(found[f"{side} {number + 1}"].weights, expected, atol=1e-5)


def test_the_first_positions_are_cut_out():
    weights = torch.randn(3, 5, 5)
    encoder, decoder = MixingMatrix("encoder", 11, "", weights), MixingMatrix("decoder", 1, "", weights.tril())
    assert (encoder.name, decoder.name) == ("encoder 11", "decoder 1")
    assert torch.equal(decoder.up_to(4).weights, weights[:, :4, :4].tril())
    assert decoder.up_to(4).counts.sum() == 10 and encoder.counts.all()


class Halved(TokenMixing):
    """A of its own without a parameter of its own."""

    def rows(self, start, end):
        return super().rows(start, end) / 2


def test_a_mixing_of_its_own_is_asked_for_its_rows():
    model = untrained()
    decoder = model.decoder.layers[1].mixing
    decoder.mixing = Halved(64, causal=True)
    model.encoder.layers[0].mixing.mixing = MLPTokenMixing(64, 2)
    found = {mixing.name: mixing for mixing in mixing_matrices(model)}
    assert list(found) == ["encoder 2", "decoder 1", "decoder 2"]
    assert torch.equal(found["decoder 2"].weights[0], decoder.mixing.weight.tril() / 2)


def test_matrices_over_channels_are_those_of_mlp_and_cross_attention():
    model = untrained()
    found = {(each.side, each.layer, each.matrix): each.share for each in sparsity_over_channels(model)}
    mlp = {(side, layer, name) for side in ("encoder", "decoder") for layer in (1, 2) for name in ("W1", "W2")}
    assert found.keys() == mlp | {("decoder", layer, name) for layer in (1, 2) for name in ("q", "k", "v", "out")}
    layer = model.decoder.layers[1]
    for name, linear in ("W2", layer.mlp.fc2), ("k", layer.cross_attention.attention.k_proj):
        size = linear.weight.abs()
        assert found["decoder", 2, name] == pytest.approx((size < size.max() / 20).float().mean().item())


SIDES = pytest.mark.parametrize("side", ["encoder", "decoder"])


def mixing(side, weights):
    return MixingMatrix(side, 1, "", weights.tril() if side == "decoder" else weights)


def entries(side, length):
    return [(i, j) for i in range(length) for j in range(length) if side == "encoder" or j <= i]


@SIDES
@settings(max_examples=20)
@given(length=st.integers(2, 7), seed=st.integers(0, 1000))
def test_the_share_explained_is_that_of_a_regression_on_relative_position(side, length, seed):
    weights = torch.randn(2, length, length, generator=torch.Generator().manual_seed(seed))
    weights[1] += 2 * torch.arange(length) - torch.arange(length)[:, None]
    places = entries(side, length)
    offsets = sorted({j - i for i, j in places})
    design = np.array([[float(j - i == offset) for offset in offsets] for i, j in places])
    for head, profile in enumerate(profiles(mixing(side, weights))):
        values = np.array([weights[head, i, j].item() for i, j in places])
        coefficients, *_ = np.linalg.lstsq(design, values, rcond=None)
        left = values - design @ coefficients
        assert profile.offsets.tolist() == offsets
        assert profile.mean == pytest.approx(coefficients, abs=1e-6)
        assert profile.explained == pytest.approx(1 - left.var() / values.var(), abs=1e-5)
        for offset, spread in zip(offsets, profile.spread, strict=True):
            diagonal = [weights[head, i, j].item() for i, j in places if j - i == offset]
            assert spread == pytest.approx(np.std(diagonal), abs=1e-5)


@SIDES
def test_a_convolution_is_explained_wholly_and_chance_as_random_matrices_are(side):
    position = torch.arange(9)
    toeplitz = torch.sin(position - position[:, None].float())[None]
    (profile,) = profiles(mixing(side, toeplitz))
    assert profile.explained == pytest.approx(1)
    (constant,) = profiles(mixing("encoder", torch.ones(1, 4, 4)))
    assert constant.explained == 1

    random = torch.randn(400, 9, 9, generator=torch.Generator().manual_seed(0))
    found = profiles(mixing(side, random))
    assert np.mean([each.explained for each in found]) == pytest.approx(found[0].by_chance, rel=0.03)


def test_sparsity_counts_what_is_below_a_twentieth_of_the_largest():
    assert share_of_small(torch.tensor([[-20.0, 0.99], [1.0, -0.5]])) == 0.5
    weights = torch.tensor([[[10.0, 9.0], [0.1, 5.0]], [[0.1, 9.0], [1.0, 1.0]]])
    assert sparsity_of_mixing(mixing("encoder", weights)).share == pytest.approx((1 / 4 + 1 / 4) / 2)
    assert sparsity_of_mixing(mixing("decoder", weights)).share == pytest.approx((1 / 3 + 0) / 2)  # a head each
