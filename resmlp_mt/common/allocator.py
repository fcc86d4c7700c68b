"""Makes glibc's allocator keep the memory that PyTorch frees, because PyTorch asks for it again at once.

By default it returns freed blocks of some megabytes to the system, which has to clear every page of the next one; on
a CPU that can be half of the time of a beam search, whose scores over the vocabulary are such blocks.
"""

import ctypes
import os
import platform

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Numbers of mallopt's parameters (malloc.h)."""


def keep_freed_memory() -> bool:
    """Make this process keep freed memory for later use: its peak stays the same, but less is given back in between.

    Does nothing without glibc, or where an environment variable of glibc's (``MALLOC_...``) sets these limits.

    Returns:
        whether it was done
    """
    if platform.libc_ver()[0] != "glibc" or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    # 32 MiB is the most that glibc lets its own arena serve; larger blocks go back in any case.
    return bool(mallopt(_MMAP_THRESHOLD, 32 << 20) and mallopt(_TRIM_THRESHOLD, (1 << 31) - 1))
