"""Training in less memory: what the backward pass needs of a cheap function is computed again, not kept.

Of ``linear(f(x))`` the backward pass needs f(x). Where f is an Aff or an activation, that is quickly computed again
from x, which is kept anyway. The linear layer itself is not: PyTorch stops as soon as it has what was asked for.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.utils.checkpoint import checkpoint

Method = TypeVar("Method", bound=Callable[..., Any])


def recomputed(method: Method) -> Method:
    """A module's method that in training keeps its arguments alone for the backward pass, if ``module.recompute``."""

    @functools.wraps(method)
    def run(self: Any, *inputs: Any) -> Any:
        if self.recompute and self.training and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            return checkpoint(method, self, *inputs, use_reentrant=False)
        return method(self, *inputs)

    return run  # type: ignore[return-value]
