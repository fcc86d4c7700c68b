import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close

from resmlp_mt.nn import recompute
from resmlp_mt.nn.activation import ACTIVATIONS
from resmlp_mt.nn.recompute import recompute_in_backward


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_output_and_gradients_are_those_of_the_plain_form(activation):
    function, layer, found = ACTIVATIONS[activation], nn.Linear(8, 4), []
    for run in lambda x: recompute_in_backward(layer, function, x), lambda x: layer(function(x)):
        x = torch.linspace(-4, 4, 5 * 3 * 8).view(5, 3, 8).requires_grad_()
        y = run(x)
        found.append([y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])])
    assert_close(*found)


def test_the_inputs_of_the_linear_layer_are_not_kept(monkeypatch):
    kept = []

    def spying(pack, unpack):
        def note(tensor):
            kept.append(pack(tensor))
            return kept[-1]

        return saved_tensors_hooks(note, unpack)

    monkeypatch.setattr(recompute, "saved_tensors_hooks", spying)
    layer = nn.Linear(8, 4)
    recompute_in_backward(layer, torch.tanh, torch.randn(5, 3, 8, requires_grad=True))
    assert sum(isinstance(each, torch.Size) for each in kept) == 1
    tensors = {each.data_ptr() for each in kept if isinstance(each, torch.Tensor)}
    assert tensors == {layer.weight.data_ptr()}
