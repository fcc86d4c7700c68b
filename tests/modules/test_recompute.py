import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close

from resmlp_mt.modules.layers import ChannelMLPBranch, LayerConfig

CONFIG = LayerConfig(dim=8, hidden_dim=24, positions=5, activation_dropout=0.5)
POINTS = torch.randn(5, 3, 8, generator=torch.Generator().manual_seed(0))


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


def test_gradients_are_those_of_the_equation_with_the_same_dropout():
    branch = ChannelMLPBranch(CONFIG)
    for found, expected in zip(gradients(branch, branch), gradients(branch, lambda x: plain(branch, x)), strict=True):
        assert_close(found, expected)


def kept(function, width):
    """How many tensors of that width are kept for the backward pass."""
    found = set()

    def pack(tensor):
        found.update([tensor.data_ptr()] if tensor.shape == (*POINTS.shape[:2], width) else [])
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        y = function(POINTS.clone().requires_grad_())
    assert y.requires_grad
    return len(found)


def test_the_hidden_values_are_kept_once():
    branch = ChannelMLPBranch(CONFIG)
    assert kept(branch, CONFIG.hidden_dim) == 1  # before the activation
    assert kept(lambda x: plain(branch, x), CONFIG.hidden_dim) > 1
