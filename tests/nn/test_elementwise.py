"""Dropout; a channel MLP recomputes the inputs of its layers, and its gradients are the equation's."""

import pytest
import torch
from oracle import ACTIVATIONS as EQUATIONS
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close

from resmlp_mt.nn import LayerConfig, elementwise
from resmlp_mt.nn.elementwise import ACTIVATIONS, Dropout
from resmlp_mt.nn.layers import ChannelMLPBranch


@pytest.mark.parametrize("p", [0.1, 0.15, 0.5, 0.9])
def test_what_is_kept_is_scaled_and_the_mean_stays(p):
    torch.manual_seed(0)
    y = Dropout(p)(torch.ones(400, 500, dtype=torch.double))
    kept = y != 0
    assert kept.double().mean().item() == pytest.approx(1 - p, abs=0.005)
    assert torch.allclose(y[kept], torch.tensor(1 / (1 - p), dtype=torch.double), atol=1e-3)
    # entries are independent: neighbours, which share a random number, agree as often as by chance
    assert (kept[:, 1:] == kept[:, :-1]).double().mean().item() == pytest.approx(p * p + (1 - p) * (1 - p), abs=0.005)


@pytest.mark.parametrize(("p", "entries"), [(0.5, 1), (0.5, 2), (0.5, 3), (0.5, 1001), (1e-7, 9), (1 - 1e-7, 9)])
def test_any_number_of_entries_and_extreme_probabilities(p, entries):
    y = Dropout(p)(torch.ones(entries))
    assert y.shape == (entries,) and torch.isfinite(y).all()


def test_a_seed_gives_one_mask_and_in_evaluation_nothing_is_dropped_unless_asked_for():
    dropout, x, masks = Dropout(0.3), torch.ones(1000), []
    for _ in range(2):
        torch.manual_seed(7)
        masks.append(dropout(x))
    assert torch.equal(*masks) and not torch.equal(masks[0], dropout(x))
    assert torch.equal(dropout.eval()(x), x)
    dropout.always = True
    assert (dropout(x) == 0).any()


SIZES = {"dim": 8, "hidden_dim": 24, "positions": 5}


def gradients(made, function):
    torch.manual_seed(1)
    x = torch.randn(5, 3, 8, requires_grad=True)
    y = function(x)
    return [y, *torch.autograd.grad(y.square().sum(), [x, *made.parameters()])]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_of_an_mlp_are_those_of_the_equation_with_the_same_dropout(activation):
    torch.manual_seed(2)
    made = ChannelMLPBranch(LayerConfig(**SIZES, activation=activation, activation_dropout=0.5))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)

    def equation(x):
        hidden = EQUATIONS[activation](made.fc1(x * made.pre_affine.alpha + made.pre_affine.beta))
        return x + made.fc2(made.activation_dropout(hidden)) * made.post_affine.alpha + made.post_affine.beta

    assert_close(gradients(made, made), gradients(made, equation))


def test_the_inputs_of_the_linear_layers_are_not_kept(monkeypatch):
    kept = []

    def noting(pack, unpack):
        def pack_and_note(tensor):
            kept.append(pack(tensor))
            return kept[-1]

        return saved_tensors_hooks(pack_and_note, unpack)

    monkeypatch.setattr(elementwise, "saved_tensors_hooks", noting)
    made = ChannelMLPBranch(LayerConfig(**SIZES))
    made(torch.randn(5, 3, 8, requires_grad=True))
    parameters = {parameter.data_ptr() for parameter in made.parameters()}
    assert len(kept) == 4  # input and weight of each layer
    assert {each.data_ptr() for each in kept if not isinstance(each, torch.Size)} <= parameters
    assert sum(isinstance(each, torch.Size) for each in kept) == 2
