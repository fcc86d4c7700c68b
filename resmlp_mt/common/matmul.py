"""How PyTorch computes on a CPU: which library multiplies fp32 matrices, in which arithmetic, and who keeps its memory.

PyTorch calls BLAS (on x86, MKL), which on AMD's processors uses half of what they can. Its only switch, for the whole
process, forward and backward, makes it call oneDNN. There that computes the same in fp32; on a processor with AMX it
rounds the factors to bfloat16 and adds up in fp32.
"""

import ctypes
import logging
import os
import platform
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
    """Whether BLAS is MKL on an AMD processor, of which it uses about half.

    A clock would choose now one, now the other; a training that was broken off has to go on with the same.
    """
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        return False
    return torch.backends.mkl.is_available() and "AuthenticAMD" in about


_set_here = False  # whether the process's setting is this module's, not its owner's


def choose(library: str) -> None:
    """Let this process multiply as ``--cpu-matmul`` says, by one of MATMULS, and log it where that is oneDNN.

    ``auto`` is oneDNN where that is exact and MKL is slow. It changes nothing where the process has chosen by itself,
    nor where there is a GPU, whose products PyTorch's setting would change too.
    """
    global _set_here
    if library == "auto":
        if torch.cuda.is_available() or (torch.get_float32_matmul_precision() != "highest" and not _set_here):
            return
        library = "onednn" if exact() and mkl_is_slow() else "blas"
    torch.set_float32_matmul_precision(LIBRARIES[library])
    _set_here = library == "onednn"
    if _set_here:
        logger.info("products of fp32 matrices: by oneDNN, in %s", "fp32" if exact() else "bfloat16")


def keep_freed_memory() -> bool:
    """Make glibc's allocator keep the memory that PyTorch frees, because PyTorch asks for it again at once.

    By default it returns freed blocks of some megabytes to the system, which has to clear every page of the next one:
    up to half of the time of a beam search. The peak stays the same. A user's variable (``MALLOC_...``) goes first.
    """
    if platform.libc_ver()[0] != "glibc" or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    trim_threshold, mmap_threshold = -1, -3  # numbers of mallopt's parameters (malloc.h)
    mallopt = ctypes.CDLL(None).mallopt
    # 32 MiB is the most that glibc lets its own arena serve; larger blocks go back in any case.
    return bool(mallopt(mmap_threshold, 32 << 20) and mallopt(trim_threshold, (1 << 31) - 1))
