"""The operators of ``kernels.cpp``, built once for this processor, and the modules that use them in a compiled step."""

import hashlib
import tempfile
from functools import cache as once
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write
from resmlp_mt.common.workers import cpuinfo
from resmlp_mt.nn.cross_attention import CrossAttention, Source
from resmlp_mt.nn.memory import PagedMemory

SOURCE = Path(__file__).with_suffix(".cpp")


def load(cache: Path) -> None:
    """Load the operators; if ``cache`` lacks them, build them with PyTorch's compiler flags for this processor."""
    if hasattr(torch.ops.resmlp_mt, "best"):
        return
    known = SOURCE.read_text() + torch.__version__ + cpuinfo("flags", "Features")
    library = cache / f"kernels-{hashlib.sha256(known.encode()).hexdigest()[:32]}.so"
    if not library.is_file():
        from torch._inductor.cpp_builder import CppBuilder, CppTorchOptions

        options = CppTorchOptions(vec_isa=vectors(), include_pytorch=True)
        with tempfile.TemporaryDirectory() as folder, atomic_write(library, "wb") as stream:
            builder = CppBuilder(library.stem, str(SOURCE), options, folder)
            builder.build()
            stream.write(Path(builder.get_target_file_path()).read_bytes())
    torch.ops.load_library(str(library))


def vectors() -> Any:
    """Return the vector instructions that PyTorch's compiler may use; it tests them in a new Python, which may fail."""
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    found = pick_vec_isa()
    if not found and "avx2" in cpuinfo("flags", "Features").split():
        hint = "is there a file beside your script or on PYTHONPATH that hides one of Python's modules, such as re.py?"
        raise UserError(f"engine compiled: PyTorch's compiler cannot use this processor's vectors: {hint}")
    return found


@once
def declare() -> None:
    """Declare the shapes and types of the operators' outputs to PyTorch's tracer."""

    @torch.library.register_fake("resmlp_mt::cross_attention")
    def _(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        return torch.empty_like(queries)

    @torch.library.register_fake("resmlp_mt::weighted_sum")
    def _(buffer: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        return buffer.new_empty(rows.size(0), buffer.size(2))

    @torch.library.register_fake("resmlp_mt::best")
    def _(logits: Tensor, scores: Tensor, barred: Tensor, count: int, end: int) -> tuple[Tensor, Tensor, Tensor]:
        sizes = scores.size(0), count
        return logits.new_empty(sizes), logits.new_empty(sizes, dtype=torch.long), torch.empty_like(scores)


class CompiledCrossAttention(nn.Module):
    """``CrossAttention`` of one position of each beam, by our operator."""

    def __init__(self, plain: CrossAttention):
        super().__init__()
        self.plain, self.source, self.mask = plain, plain.source, plain.mask

    def forward(self, x: Tensor, source: Source, need_weights: bool = False) -> tuple[Tensor, None]:
        """``1 x BK x C -> 1 x BK x C``"""
        queries = self.plain.q_proj(x)[0] * self.plain.head_dim**-0.5
        y = torch.ops.resmlp_mt.cross_attention(queries, source.keys.transpose(2, 3), source.values, source.mask)
        return self.plain.out_proj(y.unsqueeze(0)), None


class CompiledMemory(PagedMemory):
    def weighted_sum(self, weights: Tensor) -> Tensor:
        return torch.ops.resmlp_mt.weighted_sum(*self.tensors, weights)
