"""Aff, which replaces LayerNorm in ResMLP, and how both are folded into the layers next to them."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Aff(nn.Module):
    """``Aff(x) = alpha * x + beta`` per channel, C (Touvron et al. 2021, equation 1).

    Before a residual branch alpha starts at 1; at a branch's end Aff is the LayerScale and alpha starts small.
    """

    def __init__(self, dim: int, init: float = 1.0):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((dim,), float(init)))
        self.beta = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        """``... x C -> ... x C``"""
        return torch.addcmul(self.beta, x, self.alpha)


NORMS: dict[str, type[nn.Module]] = {"affine": Aff, "layernorm": nn.LayerNorm}
"""The choices, by name, for the layer before each branch and at the end of each stack."""


def split(norm: nn.Module) -> tuple[nn.Module, Aff]:
    """Split a norm into a part that cannot be folded and an Aff (of a LayerNorm, its scale and offset)."""
    if isinstance(norm, Aff):
        return nn.Identity(), norm
    assert isinstance(norm, nn.LayerNorm)
    affine = Aff(norm.normalized_shape[0])
    affine.alpha, affine.beta = norm.weight, norm.bias
    return nn.LayerNorm(norm.normalized_shape, norm.eps, elementwise_affine=False), affine


@torch.no_grad()
def fold_around_(
    pre: nn.Module, first: Iterable[nn.Linear], last: nn.Linear | None, post: Aff
) -> tuple[nn.Module, nn.Module]:
    """Fold ``pre`` into the layers ``first`` and ``post`` into the layer ``last``, if any; return what is left of both.

    ``W Aff(x) + b = (W diag(alpha)) x + (W beta + b)``; ``Aff(W x + b) = (diag(alpha) W) x + (alpha b + beta)``.
    """
    left, affine = split(pre)
    for linear in first:
        weight = linear.weight.double()
        linear.bias.copy_(linear.bias.double() + weight @ affine.beta.double())
        linear.weight.copy_(weight * affine.alpha.double())
    if last is None:
        return left, post
    alpha, beta = post.alpha.double(), post.beta.double()
    last.weight.copy_(last.weight.double() * alpha.unsqueeze(1))
    last.bias.copy_(last.bias.double() * alpha + beta)
    return left, nn.Identity()
