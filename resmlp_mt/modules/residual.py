"""The end of a residual branch, and what its backward pass keeps, with less memory than operation by operation."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from resmlp_mt.modules.affine import Aff
from resmlp_mt.modules.dropout import Dropout


def add_branch(x: Tensor, y: Tensor, affine: Aff, dropout: Dropout) -> Tensor:
    """``x + dropout(Aff(y))``, the end of every residual branch, for training.

    Args:
        x: T x B x C
        y: T x B x C, what the branch computed
    """
    kept, share = dropout.draw(y) if dropout.is_active() else (None, 1.0)
    return _AddBranch.apply(x, y, affine.alpha, affine.beta, kept, share)


class _AddBranch(torch.autograd.Function):
    """``x + kept * (alpha y + beta) / share`` with its derivatives; keeps y and the mask, a byte an entry."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, alpha: Tensor, beta: Tensor, kept: Tensor | None, share: float
    ) -> Tensor:
        ctx.save_for_backward(y, alpha, kept)
        ctx.share = share
        branch = torch.addcmul(beta, y, alpha)
        if kept is not None:
            branch.mul_(kept)
        return torch.add(x, branch, alpha=1 / share, out=branch)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, alpha, kept = ctx.saved_tensors
        grad_branch = grad / ctx.share if kept is None else kept.to(grad.dtype).mul_(grad)
        positions = tuple(range(y.dim() - 1))
        grad_alpha = (grad_branch * y).sum(positions) / ctx.share
        grad_beta = grad_branch.sum(positions) / ctx.share
        return grad, grad_branch.mul_(alpha / ctx.share), grad_alpha, grad_beta, None, None


@contextmanager
def recomputed(tensor: Tensor, function: Callable[[], Tensor]) -> Iterator[None]:
    """Within this context the backward pass does not keep ``tensor`` but computes it again, as ``function()``.

    For what is large and quickly computed from something that is kept anyway.
    """

    place, entries = tensor.data_ptr(), tensor.numel()  # a hook that knew the tensor itself would keep it

    def pack(saved: Tensor) -> Tensor | torch.Size:
        same = saved.data_ptr() == place and saved.numel() == entries and saved.is_contiguous()
        return saved.shape if same else saved

    def unpack(packed: Tensor | torch.Size) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        with torch.no_grad():
            return function().view(packed)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield
