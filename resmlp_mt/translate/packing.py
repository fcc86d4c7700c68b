"""Linear layers for inference on a CPU whose weights oneDNN has laid out for its products once, not at every call."""

from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resmlp_mt.translate.precision import BFloat16Linear, replace_

ROWS = 32
"""Beyond so many, rows are filled up to a multiple of it: oneDNN makes a kernel for each number of rows, of half a
megabyte, and keeps it."""


def pack_(model: nn.Module, leave: Collection[str] = ()) -> None:
    """Lay out the weights of a model's linear layers, but those named in ``leave``, as far as oneDNN multiplies by them
    on this CPU; in place, for inference alone from then on, and not to be copied.
    """
    types = set()
    if torch.backends.mkldnn.is_available():
        types.add(torch.float32)
        if torch.ops.mkldnn._is_mkldnn_bf16_supported():
            types.add(torch.bfloat16)

    def packable(name: str, child: nn.Module) -> bool:
        return isinstance(child, nn.Linear | BFloat16Linear) and name not in leave and child.weight.dtype in types

    replace_(model, packable, PackedLinear)


class PackedLinear(nn.Module):
    """A linear layer computed by oneDNN, in the type of its weights, between activations of any type."""

    bias: Tensor | None

    def __init__(self, linear: nn.Linear | BFloat16Linear):
        super().__init__()
        self.dtype = linear.weight.dtype
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    def forward(self, x: Tensor) -> Tensor:
        """``... x C -> ... x C'``"""
        rows = x.reshape(-1, x.size(-1)).to(self.dtype)
        count = len(rows)
        if count > ROWS:
            rows = F.pad(rows, [0, 0, 0, -count % ROWS])
        y = torch.ops.mkldnn._linear_pointwise(rows, self._packed, self.bias, "none", [], "")
        return y[:count].to(x.dtype).view(*x.shape[:-1], y.size(-1))
