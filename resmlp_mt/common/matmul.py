"""Which library multiplies fp32 matrices on a CPU, and in which arithmetic.

PyTorch calls BLAS (on x86, MKL), which reaches half of the speed of AMD's processors. The only switch, for the whole
process, makes PyTorch call oneDNN instead, which on a processor with AMX rounds the factors to bfloat16.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

from resmlp_mt.common.workers import cpuinfo

LIBRARIES = {"blas": "highest", "onednn": "medium"}  # and the precision settings by which PyTorch calls them
MATMULS = ["auto", *LIBRARIES]

logger = logging.getLogger(__name__)


@contextmanager
def matmul(library: str) -> Iterator[None]:
    """Multiply by one of LIBRARIES inside the ``with`` block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(LIBRARIES[library])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def has_bfloat16() -> bool:
    """Whether oneDNN multiplies in bfloat16, which needs AVX-512; without it PyTorch does so many times slower."""
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


@cache
def exact() -> bool:
    """Return whether oneDNN's fp32 products on this machine are as close to float64's as fp32 allows."""
    random = torch.Generator().manual_seed(1)
    with torch.device("cpu"):  # the caller's default device may be another
        a, b = torch.randn(512, 512, generator=random), torch.randn(512, 1024, generator=random)
    expected = a.double() @ b.double()
    with matmul("onednn"):
        error = (a @ b - expected).abs().max() / expected.abs().max()
    return error.item() < 1e-5  # fp32 rounds by about 1e-6 of the largest entry, bfloat16 by 2e-3


def arithmetic() -> str:
    """Return what multiplies fp32 matrices, and in which arithmetic, when oneDNN is asked for."""
    if not has_bfloat16():
        return "BLAS, in fp32: oneDNN needs AVX-512"
    return f"oneDNN, in {'fp32' if exact() else 'bfloat16'}"


@cache
def mkl_is_slow() -> bool:
    """Return whether BLAS is MKL on an AMD processor. (Timing it could choose differently when a run is resumed.)"""
    return torch.backends.mkl.is_available() and "AuthenticAMD" in cpuinfo("vendor_id")


_set_here = False  # whether this module made the process's setting, not the program itself


def choose(library: str) -> None:
    """Set the library that multiplies in this process, one of MATMULS, as ``--cpu-matmul`` says.

    With a GPU nothing changes. ``auto`` is oneDNN where that is exact and MKL is slow, unless the process has chosen.
    """
    global _set_here
    chosen = torch.get_float32_matmul_precision() != "highest" and not _set_here  # by the process itself
    if torch.cuda.is_available() or (library == "auto" and chosen):
        return  # a GPU would multiply in TF32
    if library == "auto":
        library = "onednn" if has_bfloat16() and exact() and mkl_is_slow() else "blas"
    torch.set_float32_matmul_precision(LIBRARIES[library])
    _set_here = library == "onednn"
    if _set_here:
        logger.info("products of fp32 matrices: by %s", arithmetic())
