"""The lean ends and memories of branches against PyTorch's own differentiation of the plain equations."""

import weakref

import pytest
import torch
from torch import nn

from resmlp_mt.modules.affine import Aff
from resmlp_mt.modules.dropout import Dropout
from resmlp_mt.modules.residual import add_branch, recomputed


def random_affine(dim):
    affine = Aff(dim).double()
    for parameter in affine.parameters():
        nn.init.normal_(parameter)
    return affine


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("training", [True, False])
def test_the_end_of_a_branch_and_its_gradients(p, training):
    affine, dropout = random_affine(5), Dropout(p).train(training)
    x, y = (torch.randn(4, 3, 5, dtype=torch.double, requires_grad=True) for _ in range(2))
    inputs, weight = (x, y, *affine.parameters()), torch.randn(4, 3, 5, dtype=torch.double)

    torch.manual_seed(1)
    got = add_branch(x, y, affine, dropout)
    gradients = torch.autograd.grad((got * weight).sum(), inputs)

    torch.manual_seed(1)
    kept, share = dropout.draw(y) if p and training else (torch.ones_like(y), 1.0)
    plain = x + kept * (affine.alpha * y + affine.beta) / share
    assert torch.allclose(got, plain)
    for one, other in zip(gradients, torch.autograd.grad((plain * weight).sum(), inputs), strict=True):
        assert torch.allclose(one, other)


def test_what_is_recomputed_is_not_kept_and_gradients_are_the_same():
    linear, x = nn.Linear(6, 2).double(), torch.randn(4, 3, 6, dtype=torch.double, requires_grad=True)
    expected = torch.autograd.grad(linear(torch.tanh(x)).square().sum(), (x, *linear.parameters()))
    calls, kept = [], []

    def function():
        calls.append(1)
        return torch.tanh(x)

    def remember(tensor):
        kept.append(tensor.data_ptr())
        return tensor

    activation = function()
    gone = weakref.ref(activation)
    with torch.autograd.graph.saved_tensors_hooks(remember, lambda tensor: tensor), recomputed(activation, function):
        y = linear(activation)
    assert activation.data_ptr() not in kept and len(calls) == 1
    del activation
    assert gone() is None
    got = torch.autograd.grad(y.square().sum(), (x, *linear.parameters()))
    assert len(calls) == 2
    for one, other in zip(got, expected, strict=True):
        assert torch.allclose(one, other)
