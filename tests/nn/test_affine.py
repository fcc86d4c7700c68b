import pytest
import torch
from torch import nn

from resmlp_mt.nn import Aff
from resmlp_mt.nn.affine import fold_around_, split


def random_(module):
    for parameter in module.double().parameters():
        nn.init.normal_(parameter)
    return module


def test_it_scales_and_shifts_each_channel_and_starts_with_one_scale():
    aff, x = random_(Aff(5)), torch.randn(3, 2, 5).double()
    expected = torch.stack([aff.alpha[c] * x[..., c] + aff.beta[c] for c in range(5)], -1)
    assert torch.allclose(aff(x), expected)
    assert torch.equal(Aff(5).double()(x), x) and torch.allclose(Aff(5, 0.2).double()(x), 0.2 * x)


@pytest.mark.parametrize("norm", [Aff, nn.LayerNorm])
def test_both_steps_are_the_norm_and_linear_layers_take_in_the_affine_ones(norm):
    norm, x = random_(norm(5)), 3 * torch.randn(4, 2, 5).double() + 1
    left, affine = split(norm)
    assert torch.allclose(affine(left(x)), norm(x))
    assert not [*left.parameters()] and isinstance(affine, Aff)
    first, last, behind = random_(nn.Linear(5, 4)), random_(nn.Linear(4, 3)), random_(Aff(3))
    expected = behind(last(first(norm(x)).tanh()))
    pre, post = fold_around_(norm, [first], last, behind)
    assert torch.allclose(post(last(first(pre(x)).tanh())), expected) and isinstance(post, nn.Identity)
