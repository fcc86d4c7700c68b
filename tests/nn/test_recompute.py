import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close

from resmlp_mt.nn import recompute
from resmlp_mt.nn.activation import ACTIVATIONS
from resmlp_mt.nn.layers import ChannelMLPBranch, LayerConfig

POINTS = torch.randn(5, 3, 8, generator=torch.Generator().manual_seed(0))


def branch(**config):
    torch.manual_seed(2)
    made = ChannelMLPBranch(LayerConfig(dim=8, hidden_dim=24, positions=5, **config))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return made


def plain(branch, x):
    """The equation, with nothing computed twice."""
    hidden = branch.activation_fn(branch.fc1(x * branch.pre_affine.alpha + branch.pre_affine.beta))
    y = branch.fc2(branch.activation_dropout(hidden))
    return x + y * branch.post_affine.alpha + branch.post_affine.beta


def gradients(branch, function):
    torch.manual_seed(1)
    x = POINTS.clone().requires_grad_()
    y = function(x)
    return [y, *torch.autograd.grad(y.square().sum(), [x, *branch.parameters()])]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_gradients_are_those_of_the_equation_with_the_same_dropout(activation, dropout):
    made = branch(activation=activation, activation_dropout=dropout)
    for found, expected in zip(gradients(made, made), gradients(made, lambda x: plain(made, x)), strict=True):
        assert_close(found, expected)


def test_second_derivatives_too():
    made = branch().double()
    found, expected = [], []
    for function, results in ((made, found), (lambda x: plain(made, x), expected)):
        x = POINTS.double().requires_grad_()
        inputs = [x, *made.parameters()]
        first = torch.autograd.grad(function(x).square().sum(), inputs, create_graph=True)
        results.extend(torch.autograd.grad(sum(each.square().sum() for each in first), inputs))
    assert_close(found, expected)


def test_a_frozen_layer_and_one_with_a_hook():
    made = branch()
    made.fc2.requires_grad_(False)
    made.fc1.register_forward_pre_hook(lambda module, args: (2 * args[0],))
    x = POINTS.clone().requires_grad_()
    found = torch.autograd.grad(made(x).square().sum(), [x, made.fc1.weight])
    y = made.fc2(made.activation_fn(torch.nn.functional.linear(2 * made.pre_affine(x), made.fc1.weight, made.fc1.bias)))
    expected = torch.autograd.grad((x + made.post_affine(y)).square().sum(), [x, made.fc1.weight])
    assert_close(found, expected)


def test_the_inputs_of_the_linear_layers_are_not_kept(monkeypatch):
    kept = []

    def spying(pack, unpack):
        def note(tensor):
            kept.append(pack(tensor))
            return kept[-1]

        return saved_tensors_hooks(note, unpack)

    monkeypatch.setattr(recompute, "saved_tensors_hooks", spying)
    made = branch()
    made(POINTS.clone().requires_grad_())
    parameters = {parameter.data_ptr() for parameter in made.parameters()}
    assert len(kept) == 4  # input and weight of each layer
    assert {each.data_ptr() for each in kept if not isinstance(each, torch.Size)} <= parameters
    assert sum(isinstance(each, torch.Size) for each in kept) == 2
