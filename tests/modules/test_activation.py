import math

import pytest
import torch

from resmlp_mt.modules.activation import activation

BY_HAND = {
    "relu": lambda x: max(x, 0),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + math.exp(-x)),
    "hardswish": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "tanh": math.tanh,
}


@pytest.mark.parametrize("name", BY_HAND)
def test_it_is_the_function_of_that_name(name):
    x = torch.linspace(-5, 5, 41)
    expected = torch.tensor([BY_HAND[name](each) for each in x.tolist()])
    torch.testing.assert_close(activation(name)(x), expected, rtol=1e-5, atol=1e-6)
