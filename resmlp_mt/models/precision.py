"""Inference in fewer bits than training: bfloat16, or 8-bit integers where the processor has no bfloat16.

Scores then differ from those of fp32 by more than rounding of fp32; what it does to BLEU has to be measured.
"""

import logging
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from resmlp_mt.errors import UserError

logger = logging.getLogger(__name__)

Precision = Literal["fp32", "bf16", "int8"]
PRECISIONS: tuple[str, ...] = get_args(Precision)


def lower_precision_(model: nn.Module, precision: str) -> None:
    """Give a folded model the precision that it shall infer with, in place.

    - ``fp32`` leaves the model as it is (also as ``--fp16`` made it).
    - ``bf16`` stores and computes everything in bfloat16; fairseq normalises the scores in fp32.
    - ``int8`` makes every linear layer over channels but the projection to the vocabulary an ``Int8Linear``. CPU only.

    Raises:
        UserError: int8 for a model that is on a GPU or not in fp32
    """
    parameter = next(model.parameters())
    if precision == "bf16":
        if parameter.device.type == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            logger.warning("this processor has no bfloat16 arithmetic: bf16 will be slower than fp32")
        model.to(torch.bfloat16)
    elif precision == "int8":
        if parameter.device.type != "cpu" or parameter.dtype != torch.float32:
            raise UserError("inference precision int8 is for fp32 models on a CPU: leave out --fp16 and give --cpu")
        for parent in list(model.modules()):
            for name, child in parent.named_children():
                # The vocabulary is so wide that rescaling the products would cost more than 8 bits save.
                if isinstance(child, nn.Linear) and name != "output_projection":
                    setattr(parent, name, Int8Linear(child))


class Int8Linear(nn.Module):
    """A linear layer computed in 8-bit integers: one scale for each output, and one, found as it comes, for each input.

    PyTorch's own dynamic quantization has one scale for the whole batch, so that a sentence would depend on the others.

    Args:
        linear: the trained layer
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight, scale = _rounded(linear.weight.detach())
        self.register_buffer("weight", weight.t().contiguous())
        self.register_buffer("scale", scale.squeeze(1))
        self.register_buffer("bias", torch.zeros_like(self.scale) if linear.bias is None else linear.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        """``... x C -> ... x C'``"""
        rows, row_scale = _rounded(x.reshape(-1, x.size(-1)))
        y = torch._int_mm(rows, self.weight) * row_scale
        return torch.addcmul(self.bias, y, self.scale).view(*x.shape[:-1], -1)


def _rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """``R x C -> R x C`` of int8 and ``R x 1`` of scales whose product is the rows, nearly."""
    scale = rows.abs().amax(1, keepdim=True).clamp_min(1e-30) / 127
    return torch.round(rows / scale).to(torch.int8), scale
