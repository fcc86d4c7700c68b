"""Packed weights: the same product, for any batch."""

import pytest
import torch
from torch import nn

from resmlp_mt.translate.precision import BFloat16Linear, PackedLinear, pack_

TYPES = [torch.float32]
if torch.ops.mkldnn._is_mkldnn_bf16_supported():
    TYPES.append(torch.bfloat16)

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN")


def layer(dtype, bias=True):
    torch.manual_seed(0)
    linear = nn.Linear(24, 70, bias=bias)
    return linear if dtype == torch.float32 else BFloat16Linear(linear)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
@torch.no_grad()
def test_it_is_the_product(dtype, bias):
    linear, tolerance = layer(dtype, bias), 1e-6 if dtype == torch.float32 else 2**-7
    packed = PackedLinear(linear)
    for shape in (0, 24), (24,), (1, 24), (5, 24), (3, 40, 24), (300, 24):
        x = torch.randn(shape)
        weight, rounded = linear.weight.double(), x.to(dtype).double()
        expected = rounded @ weight.t() + (linear.bias.double() if bias else 0)
        got = packed(x)
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.double(), expected, rtol=tolerance, atol=4 * tolerance)
    x = torch.randn(24, 6).t()
    assert torch.equal(packed(x), packed(x.contiguous()))


@pytest.mark.parametrize("dtype", TYPES)
@torch.no_grad()
def test_a_row_does_not_depend_on_the_others(dtype):
    packed, x = PackedLinear(layer(dtype)), torch.randn(100, 24)
    for rows in 1, 2, 4, 7, 64, 99:
        torch.testing.assert_close(packed(x[:rows]), packed(x)[:rows], rtol=0, atol=1e-6)


def test_all_linear_layers_are_packed_but_those_named():
    model = nn.ModuleDict({"mlp": nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2).double()), "out": nn.Linear(4, 3)})
    pack_(model, leave=["out"])
    kinds = [type(model["mlp"][0]), type(model["mlp"][1]), type(model["out"])]
    assert kinds == [PackedLinear, nn.Linear, nn.Linear]
