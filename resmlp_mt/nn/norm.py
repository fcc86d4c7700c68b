"""What stands before every branch and at the end of each stack: Aff, or LayerNorm as in a Transformer.

An Aff can be folded into what follows it; of a LayerNorm the scale and the offset that end it can.
"""

import torch
from torch import Tensor, nn

from .affine import Aff

NORMS: dict[str, type[nn.Module]] = {"affine": Aff, "layernorm": nn.LayerNorm}


def split(norm: nn.Module) -> tuple[nn.Module, Aff]:
    """A norm as two steps: what cannot be folded, and an Aff."""
    if isinstance(norm, Aff):
        return nn.Identity(), norm
    assert isinstance(norm, nn.LayerNorm)
    affine = Aff(norm.normalized_shape[0])
    affine.alpha, affine.beta = norm.weight, norm.bias
    return nn.LayerNorm(norm.normalized_shape, norm.eps, elementwise_affine=False), affine


def absorb_input_affine_(linear: nn.Linear, affine: Aff) -> None:
    """Make ``linear(x)`` what ``linear(affine(x))`` was: ``W Aff(x) + b = (W diag(alpha)) x + (W beta + b)``."""
    with torch.no_grad():
        weight, alpha, beta = linear.weight.double(), affine.alpha.double(), affine.beta.double()
        linear.bias.copy_(linear.bias.double() + weight @ beta)
        linear.weight.copy_(weight * alpha)


def absorb_output_affine_(linear: nn.Linear, affine: Aff) -> None:
    """Make ``linear(x)`` what ``affine(linear(x))`` was."""
    scale_outputs_(linear.weight.t(), linear.bias, affine)


def scale_outputs_(weight: Tensor, bias: Tensor, affine: Aff) -> None:
    """Make ``x weight + bias`` what ``affine(x weight + bias)`` was; weight is ... x C, with outputs last."""
    with torch.no_grad():
        alpha, beta = affine.alpha.double(), affine.beta.double()
        weight.copy_(weight.double() * alpha)
        bias.copy_(bias.double() * alpha + beta)
