"""Linear layers in 8-bit integers for a compiled model: PyTorch's compiler makes code for each and its neighbours."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from resmlp_mt.translate.precision import Int8Linear, replace_

OFFSET = 128
"""The compiler multiplies unsigned numbers by signed ones: what is added to the rows is taken out of the product."""


def can_compile_products() -> bool:
    """Whether the processor has instructions for 8 bits (VNNI); without them the compiler's code is very slow."""
    return torch.cpu._is_vnni_supported()


def products() -> dict[str, object]:
    """What the compiler is told, so that it makes this code, for as many threads as PyTorch has now."""
    return {
        "cpp.threads": torch.get_num_threads(),
        "freezing": True,  # packed weights are constants
        "max_autotune_gemm": True,
        "max_autotune_gemm_backends": "ATEN,CPP",
        # one choice for each product, so that none is made by timing: other products than ours by a call, as ever
        "test_configs.autotune_choice_name_regex": "^(cpp|mm|bmm|addmm|baddbmm)",
    }


class CompiledInt8Linear(nn.Module):
    """``Int8Linear`` in operators that the compiler can take apart."""

    weight: Tensor
    scale: Tensor
    zero: Tensor
    bias: Tensor | None

    def __init__(self, linear: Int8Linear):
        super().__init__()
        self.register_buffer("weight", linear.weight.t().contiguous())
        self.register_buffer("scale", linear.scale)
        self.register_buffer("zero", torch.zeros_like(linear.scale, dtype=torch.int32))
        self.register_buffer("bias", linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``... x C -> ... x C'``"""
        rows = x.reshape(-1, x.size(-1))
        # nothing comes after the largest number is found, or the compiler would compute it again for every channel
        row_scale = rows.abs().clamp_min(1e-30).mul(1 / 127).amax(1, keepdim=True)
        rows = ((rows / row_scale).round() + OFFSET).to(torch.uint8)
        packed = torch.ops.onednn.qlinear_prepack(self.weight, None)
        y = torch.ops.onednn.qlinear_pointwise(
            rows, 1.0, OFFSET, packed, self.scale, self.zero, None, 1.0, 0, torch.float32, "none", [], ""
        )
        y = y * row_scale if self.bias is None else torch.addcmul(self.bias, y, row_scale)
        return y.unflatten(0, x.shape[:-1])


def with_compiled_products_(model: nn.Module) -> None:
    """Replace each ``Int8Linear``, in place."""
    replace_(model, lambda _, child: isinstance(child, Int8Linear), CompiledInt8Linear)


@contextmanager
def shape_of_packed() -> Iterator[None]:
    """Tell PyTorch, as long as it traces and compiles, which shape packed weights have."""
    library = torch.library.Library("onednn", "FRAGMENT")
    try:
        torch.library.register_fake(
            "onednn::qlinear_prepack", lambda weight, shape: weight.new_empty(weight.shape[::-1]), lib=library
        )
        yield
    finally:
        library._destroy()
