"""Which library multiplies fp32 matrices on a CPU, and in which arithmetic.

PyTorch calls BLAS (on x86, MKL), which uses half of AMD's processors. Its only switch, for the whole process, makes it
call oneDNN, which on a processor with AMX rounds the factors to bfloat16.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

LIBRARIES = {"blas": "highest", "onednn": "medium"}  # PyTorch's settings that call them
MATMULS = ["auto", *LIBRARIES]

logger = logging.getLogger(__name__)


@contextmanager
def matmul(library: str) -> Iterator[None]:
    """Multiply by one of LIBRARIES for a while."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(LIBRARIES[library])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@cache
def exact() -> bool:
    """Whether oneDNN's fp32 products are as near to those in float64 as fp32 allows on this machine."""
    random = torch.Generator().manual_seed(1)
    with torch.device("cpu"):  # the model may be made on another
        a, b = torch.randn(512, 512, generator=random), torch.randn(512, 1024, generator=random)
    expected = a.double() @ b.double()
    with matmul("onednn"):
        error = (a @ b - expected).abs().max() / expected.abs().max()
    return error.item() < 1e-5  # the rounding of fp32 is about 1e-6 of the largest, that of bfloat16 2e-3


@cache
def mkl_is_slow() -> bool:
    """Whether BLAS is MKL on an AMD processor. (A clock would choose now one, now the other, also after a break.)"""
    about = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    return torch.backends.mkl.is_available() and "AuthenticAMD" in about


_set_here = False  # whether the process's setting is this module's, not its owner's


def choose(library: str) -> None:
    """Let this process multiply as ``--cpu-matmul`` says, by one of MATMULS.

    With a GPU nothing changes. ``auto`` is oneDNN where that is exact and MKL is slow, if the process has not chosen.
    """
    global _set_here
    chosen = torch.get_float32_matmul_precision() != "highest" and not _set_here  # by the process itself
    if torch.cuda.is_available() or (library == "auto" and chosen):
        return  # a GPU would multiply in TF32
    if library == "auto":
        library = "onednn" if exact() and mkl_is_slow() else "blas"
    torch.set_float32_matmul_precision(LIBRARIES[library])
    _set_here = library == "onednn"
    if _set_here:
        logger.info("products of fp32 matrices: by oneDNN, in %s", "fp32" if exact() else "bfloat16")
