import pytest
import torch
from torch import nn

from resmlp_mt.nn import Aff
from resmlp_mt.nn.norm import absorb_input_affine_, absorb_output_affine_, split


def random_(module):
    for parameter in module.double().parameters():
        nn.init.normal_(parameter)
    return module


@pytest.mark.parametrize("norm", [Aff, nn.LayerNorm])
def test_both_steps_are_the_norm(norm):
    norm, x = random_(norm(5)), 3 * torch.randn(4, 2, 5).double() + 1
    left, affine = split(norm)
    assert torch.allclose(affine(left(x)), norm(x))
    assert not [*left.parameters()] and isinstance(affine, Aff)


def test_a_linear_layer_takes_in_the_affines_beside_it():
    before, linear, behind, x = random_(Aff(5)), random_(nn.Linear(5, 3)), random_(Aff(3)), torch.randn(4, 5).double()
    expected = behind(linear(before(x)))
    absorb_input_affine_(linear, before)
    absorb_output_affine_(linear, behind)
    assert torch.allclose(linear(x), expected)
