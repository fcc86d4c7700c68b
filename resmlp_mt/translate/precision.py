"""Inference on a CPU with fewer bits than training, in the linear layers over channels: most of the arithmetic."""

import logging
from collections.abc import Callable, Collection
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

logger = logging.getLogger(__name__)


def lower_precision_(model: nn.Module, precision: str, leave: Collection[str] = ()) -> None:
    """Convert a folded model in fp32 on a CPU to one of ``options.PRECISIONS``, in place; ``fp32`` leaves any as it is.

    Args:
        leave: names of layers within their parents that stay as they are
    """
    if precision == "fp32":
        return
    parameter = next(model.parameters())
    if parameter.device.type != "cpu" or parameter.dtype != torch.float32:
        raise ValueError(f"inference precision {precision} is for fp32 on a CPU")
    if precision == "bf16":
        warn_without_bfloat16(", int8 may be faster")
    layer = BFloat16Linear if precision == "bf16" else Int8Linear
    replace_(model, lambda name, child: isinstance(child, nn.Linear) and name not in leave, layer)


def replace_(model: nn.Module, chosen: Callable[[str, nn.Module], bool], make: Callable[[Any], nn.Module]) -> None:
    """Put in the place of each layer that is chosen, by its name within its parent and itself, what is made of it."""
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if chosen(name, child):
                setattr(parent, name, make(child))


def warn_without_bfloat16(instead: str = "") -> None:
    """Tell that bfloat16 gains nothing, where the processor has no arithmetic for it; and what may."""
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        logger.warning("this processor has no bfloat16 arithmetic: it will be slower than fp32%s", instead)


class BFloat16Linear(nn.Module):
    """A linear layer computed in bfloat16 between activations in fp32.

    (In bfloat16 the small products of attention and mixing would be slower, and the sum of the branches worse.)
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.register_buffer("weight", linear.weight.detach().bfloat16())
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().bfloat16())

    def forward(self, x: Tensor) -> Tensor:
        """``... x C -> ... x C'``"""
        rows = x.reshape(-1, x.size(-1)).to(torch.bfloat16)  # 3 dimensions of some strides are slow in PyTorch
        return F.linear(rows, self.weight, self.bias).to(x.dtype).unflatten(0, x.shape[:-1])


class Int8Linear(nn.Module):
    """A linear layer computed in 8-bit integers: one scale for each output, and one, found as it comes, for each input.

    PyTorch's own dynamic quantization has one scale for the whole batch, so that a sentence would depend on the others.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight, scale = _rounded(linear.weight.detach())
        self.register_buffer("weight", weight.t().contiguous())
        self.register_buffer("scale", scale.squeeze(1))
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        """``... x C -> ... x C'``"""
        rows, row_scale = _rounded(x.reshape(-1, x.size(-1)))
        y = torch._int_mm(rows, self.weight).to(x.dtype).mul_(self.scale)
        y = y.mul_(row_scale) if self.bias is None else torch.addcmul(self.bias, y, row_scale)
        return y.unflatten(0, x.shape[:-1])


def _rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Round rows, ``R x C``, to int8, ``R x C``, and scales, ``R x 1``, whose product is nearly the rows."""
    scale = rows.abs().amax(1, keepdim=True).clamp_min_(1e-30).div_(127)
    return (rows / scale).round_().to(torch.int8), scale
