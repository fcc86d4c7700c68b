"""A channel MLP computes again what its linear layers read, and gives what the equation gives."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close

from resmlp_mt.nn import LayerConfig, elementwise
from resmlp_mt.nn.elementwise import ACTIVATIONS
from resmlp_mt.nn.layers import ChannelMLPBranch


def branch(**config):
    torch.manual_seed(2)
    made = ChannelMLPBranch(LayerConfig(dim=8, hidden_dim=24, positions=5, **config))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return made


def gradients(made, function):
    torch.manual_seed(1)
    x = torch.randn(5, 3, 8, requires_grad=True)
    y = function(x)
    return [y, *torch.autograd.grad(y.square().sum(), [x, *made.parameters()])]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_gradients_are_those_of_the_equation_with_the_same_dropout(activation, dropout):
    made = branch(activation=activation, activation_dropout=dropout)

    def equation(x):
        hidden = made.activation_fn(made.fc1(x * made.pre_affine.alpha + made.pre_affine.beta))
        y = made.fc2(made.activation_dropout(hidden))
        return x + y * made.post_affine.alpha + made.post_affine.beta

    assert_close(gradients(made, made), gradients(made, equation))


def test_the_inputs_of_the_linear_layers_are_not_kept(monkeypatch):
    kept = []

    def spying(pack, unpack):
        return saved_tensors_hooks(lambda tensor: kept.append(pack(tensor)) or kept[-1], unpack)

    monkeypatch.setattr(elementwise, "saved_tensors_hooks", spying)
    made = branch()
    made(torch.randn(5, 3, 8, requires_grad=True))
    parameters = {parameter.data_ptr() for parameter in made.parameters()}
    assert len(kept) == 4  # input and weight of each layer
    assert {each.data_ptr() for each in kept if not isinstance(each, torch.Size)} <= parameters
    assert sum(isinstance(each, torch.Size) for each in kept) == 2
