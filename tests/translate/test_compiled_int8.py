"""Layers in 8 bits in operators that a compiler can take apart, beside those that call PyTorch's product."""

import pytest
import torch
from torch import nn

from resmlp_mt.translate.precision import CompiledInt8Linear, Int8Linear, can_compile_products

pytestmark = pytest.mark.skipif(
    not can_compile_products(), reason="the layers are not used on this processor, where sums of 16 bits overflow"
)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [16, 512])
def test_the_same_numbers(bias: bool, size: int) -> None:
    torch.manual_seed(0)
    layer = Int8Linear(nn.Linear(size, 40, bias=bias))
    x = 3 * torch.randn(5, 2, size)
    x[1] = 0.0
    expected, found = layer(x), CompiledInt8Linear(layer)(x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_row_never_changes_another() -> None:
    torch.manual_seed(0)
    layer = CompiledInt8Linear(Int8Linear(nn.Linear(32, 16)))
    x = torch.randn(7, 32)
    together = layer(torch.cat([x, 100 * torch.randn(3, 32)]))[:7]
    assert all(torch.equal(layer(row.unsqueeze(0))[0], other) for row, other in zip(x, together, strict=True))
