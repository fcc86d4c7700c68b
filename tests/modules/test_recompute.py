"""Computing again for the backward pass: the same gradients from less that is kept. The oracle runs through it too."""

import pytest
import torch
from test_layers import layer, run
from torch.autograd.graph import saved_tensors_hooks

from resmlp_mt.modules import recompute
from resmlp_mt.modules.layers import ChannelMLPBranch, TokenMixingBranch

DROPOUT = {"dropout": 0.3, "activation_dropout": 0.3, "attention_dropout": 0.3}
METHODS = [(TokenMixingBranch, "mixed"), (ChannelMLPBranch, "inner"), (ChannelMLPBranch, "outer")]


def train(layer, monkeypatch):
    """One backward pass from the same random numbers; returns the gradients and the bytes kept for it."""
    torch.manual_seed(1)
    x, memory = torch.randn(6, 3, 8, requires_grad=True), torch.randn(6, 3, 8)
    padding = torch.arange(6).unsqueeze(1) >= torch.tensor([6, 4, 5])
    parameters, kept = {each.data_ptr() for each in layer.parameters()}, {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage
        return tensor

    def checkpoint(method, owner, *inputs, **options):
        for each in inputs:
            if each is not None:
                keep(each)
        return torch.utils.checkpoint.checkpoint(method, owner, *inputs, **options)

    monkeypatch.setattr(recompute, "checkpoint", checkpoint)
    layer.zero_grad()
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        y = run(layer, x, memory, padding)
    y.square().sum().backward()
    return [x.grad, *(each.grad for each in layer.parameters())], sum(each.nbytes() for each in kept.values())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 4])
def test_gradients_are_those_of_keeping_all_from_less_memory(causal, heads, monkeypatch):
    layers = layer(causal, mixing_heads=heads, **DROPOUT)
    found, kept = train(layers, monkeypatch)
    for owner, name in METHODS:
        monkeypatch.setattr(owner, name, getattr(owner, name).__wrapped__)
    expected, all_kept = train(layers, monkeypatch)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
    assert kept < 0.8 * all_kept, kept / all_kept
