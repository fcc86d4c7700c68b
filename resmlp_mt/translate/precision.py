"""Inference on a CPU in lower precision, for the linear layers over channels, which are most of the arithmetic."""

import ctypes
import os
import platform
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resmlp_mt.common.matmul import has_bfloat16

ROWS = 32
"""More rows are padded to a multiple of this: oneDNN keeps a kernel of half a megabyte for each number of rows."""
OFFSET = 128
"""Zero point of the rows: the compiler multiplies unsigned rows by signed weights. The product does not change."""


def lower_precision_(model: nn.Module, precision: str, leave: Collection[str] = ()) -> None:
    """Convert a folded fp32 model on a CPU to one of ``options.PRECISIONS``, in place; ``fp32`` changes nothing.

    Layers whose name within their parent is in ``leave`` do not change. Raises ValueError for other models.
    """
    if precision == "fp32":
        return
    parameter = next(model.parameters())
    if parameter.device.type != "cpu" or parameter.dtype != torch.float32:
        raise ValueError(f"inference precision {precision} is for fp32 on a CPU")
    layer = BFloat16Linear if precision == "bf16" else Int8Linear
    replace_(model, nn.Linear, layer, leave)


def replace_(model: nn.Module, classes: Any, make: Callable[[Any], nn.Module], leave: Collection[str] = ()) -> None:
    """Replace each layer of ``classes`` by ``make(layer)``, except where its name within its parent is in ``leave``."""
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, classes) and name not in leave:
                setattr(parent, name, make(child))


class InferenceLinear(nn.Module):
    """A linear layer for inference only; ``product`` computes it for the rows of an input, ``R x C -> R x C'``."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, **buffers: Tensor | None):
        super().__init__()
        for name, buffer in buffers.items():
            self.register_buffer(name, None if buffer is None else buffer.detach())

    def forward(self, x: Tensor) -> Tensor:
        """``... x C -> ... x C'``"""
        y = self.product(x.reshape(-1, x.size(-1)))  # PyTorch is slow for 3 dimensions of some strides
        return y.view(*x.shape[:-1], y.size(-1))

    def product(self, rows: Tensor) -> Tensor:
        raise NotImplementedError


class BFloat16Linear(InferenceLinear):
    """A linear layer of rounded numbers, computed in bfloat16 or, if that is slow, in fp32; input and output are fp32.

    (In bfloat16 the small products of attention and mixing would be slower, and the sum of the branches less exact.)
    """

    def __init__(self, linear: nn.Linear):
        dtype = torch.bfloat16 if has_bfloat16() else torch.float32
        bias = None if linear.bias is None else linear.bias.bfloat16().to(dtype)
        super().__init__(weight=linear.weight.bfloat16().to(dtype), bias=bias)

    def product(self, rows: Tensor) -> Tensor:
        return F.linear(rows.bfloat16().to(self.weight.dtype), self.weight, self.bias).to(rows.dtype)


class Int8Linear(InferenceLinear):
    """A linear layer computed in int8: a fixed scale for each output channel, and one for each row, found at run time.

    Without 8-bit instructions the rounded numbers are multiplied in fp32. PyTorch's own dynamic quantization has one
    scale for the whole batch, so that a sentence would depend on the others.
    """

    def __init__(self, linear: nn.Linear):
        weight, scale = _rounded(linear.weight.detach())
        weight = weight.to(torch.int8 if has_int8() else torch.float32).t().contiguous()
        super().__init__(weight=weight, scale=scale.squeeze(1), bias=linear.bias)

    def product(self, rows: Tensor) -> Tensor:
        whole, row_scale = _rounded(rows)
        multiply = torch._int_mm if self.weight.dtype == torch.int8 else torch.mm
        y = multiply(whole.to(self.weight.dtype), self.weight).to(rows.dtype).mul_(self.scale)
        return y.mul_(row_scale) if self.bias is None else torch.addcmul(self.bias, y, row_scale)


def _rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return whole numbers of 8 bits, ``R x C``, and scales, ``R x 1``, whose product is nearly the rows, ``R x C``."""
    scale = rows.abs().amax(1, keepdim=True).clamp_min_(1e-30).div_(127)
    return (rows / scale).round_(), scale


class PackedLinear(InferenceLinear):
    """A linear layer computed in its weights' type. oneDNN lays the weights out for its products once, not per call."""

    def __init__(self, linear: nn.Linear | BFloat16Linear):
        super().__init__(bias=linear.bias)
        self.dtype = linear.weight.dtype
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    def product(self, rows: Tensor) -> Tensor:
        count, filled = len(rows), rows.to(self.dtype)
        if count > ROWS:
            filled = F.pad(filled, [0, 0, 0, -count % ROWS])
        y = torch.ops.mkldnn._linear_pointwise(filled, self._packed, self.bias, "none", [], "")
        return y[:count].to(rows.dtype)


class CompiledInt8Linear(InferenceLinear):
    """``Int8Linear`` in operators that PyTorch's compiler knows: it makes code for each and its neighbours together."""

    zero: Tensor

    def __init__(self, linear: Int8Linear):
        zero = torch.zeros_like(linear.scale, dtype=torch.int32)
        super().__init__(weight=linear.weight.t().contiguous(), scale=linear.scale, zero=zero, bias=linear.bias)

    def product(self, rows: Tensor) -> Tensor:
        # amax comes last: the compiler would compute what follows it again for every channel
        row_scale = rows.abs().clamp_min(1e-30).mul(1 / 127).amax(1, keepdim=True)
        rows = ((rows / row_scale).round() + OFFSET).to(torch.uint8)
        packed = torch.ops.onednn.qlinear_prepack(self.weight, None)
        y = torch.ops.onednn.qlinear_pointwise(
            rows, 1.0, OFFSET, packed, self.scale, self.zero, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return y * row_scale if self.bias is None else torch.addcmul(self.bias, y, row_scale)


def pack_(model: nn.Module, leave: Collection[str] = ()) -> None:
    """Lay out the weights of linear layers for oneDNN, in place, except layers named in ``leave`` and types that oneDNN
    does not multiply on this CPU. From then on the model is for inference only and must not be copied.
    """
    classes = (nn.Linear, BFloat16Linear) if has_bfloat16() else nn.Linear
    if torch.backends.mkldnn.is_available():
        replace_(model, classes, PackedLinear, leave)


def has_int8() -> bool:
    """Whether the processor has 8-bit instructions (VNNI); without them PyTorch's 8-bit products are very slow."""
    return torch.cpu._is_vnni_supported()


def compilable_(model: nn.Module) -> None:
    """Replace each ``Int8Linear`` by a ``CompiledInt8Linear``, in place, if that is faster on this processor."""
    if has_int8():
        replace_(model, Int8Linear, CompiledInt8Linear)


def int8_settings(precision: str) -> dict[str, object]:
    """Return the compiler's settings for int8 layers, to make code for them for one thread; {} if they need none."""
    if precision != "int8" or not has_int8():
        return {}
    return {
        "cpp.threads": 1,
        "freezing": True,  # packed weights are constants
        "max_autotune_gemm": True,
        "max_autotune_gemm_backends": "ATEN,CPP",
        # leaves one choice for each product, so that none is chosen by timing; other products stay library calls
        "test_configs.autotune_choice_name_regex": "^(cpp|mm|bmm|addmm|baddbmm)",
    }


@contextmanager
def shape_of_packed() -> Iterator[None]:
    """Declare the shape of packed weights to PyTorch while it traces and compiles."""
    library = torch.library.Library("onednn", "FRAGMENT")
    try:
        torch.library.register_fake(
            "onednn::qlinear_prepack", lambda weight, shape: weight.new_empty(weight.shape[::-1]), lib=library
        )
        yield
    finally:
        library._destroy()


def keep_freed_memory() -> None:
    """Make glibc's allocator keep the memory that PyTorch frees and soon asks for again.

    By default it returns freed blocks of some megabytes to the system, which has to clear every page of the next one:
    up to half of the time of a beam search. The peak stays the same. A user's ``MALLOC_...`` variable has priority.
    """
    if platform.libc_ver()[0] != "glibc" or any(name.startswith("MALLOC_") for name in os.environ):
        return
    trim_threshold, mmap_threshold = -1, -3  # numbers of mallopt's parameters (malloc.h)
    mallopt = ctypes.CDLL(None).mallopt
    # 32 MiB is the most that glibc lets its own arena serve; larger blocks go back in any case.
    mallopt(mmap_threshold, 32 << 20)
    mallopt(trim_threshold, (1 << 31) - 1)
