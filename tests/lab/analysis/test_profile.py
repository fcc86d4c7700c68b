import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from resmlp_mt.lab.analysis.matrices import MixingMatrix, of_mixing, profiles, share_of_small

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
    assert of_mixing(mixing("encoder", weights)).share == pytest.approx((1 / 4 + 1 / 4) / 2)
    assert of_mixing(mixing("decoder", weights)).share == pytest.approx((1 / 3 + 0) / 2)  # each head by its own
