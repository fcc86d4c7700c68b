import math

import pytest
import torch
from fairseq import utils

from resmlp_mt.nn.elementwise import ACTIVATIONS

BY_HAND = {
    "relu": lambda x: max(x, 0),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + math.exp(-x)),
    "hardswish": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "gelu_accurate": lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "tanh": math.tanh,
    "linear": lambda x: x,
}


@pytest.mark.parametrize("name", BY_HAND)
def test_it_is_the_function_of_that_name(name):
    x = torch.linspace(-5, 5, 41)
    expected = torch.tensor([BY_HAND[name](each) for each in x.tolist()])
    torch.testing.assert_close(ACTIVATIONS[name](x), expected, rtol=1e-5, atol=1e-6)


def test_fairseq_s_names_are_there_and_mean_the_same():
    x = torch.linspace(-5, 5, 41)
    for name in utils.get_available_activation_fns():
        torch.testing.assert_close(ACTIVATIONS[name](x), utils.get_activation_fn(name)(x))
