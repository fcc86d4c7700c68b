"""The most memory that a piece of work takes, found in a process of its own."""

import re
from collections.abc import Callable
from pathlib import Path

import torch

from resmlp_mt.lab.benchmarks.processes import fresh_processes
from resmlp_mt.lab.benchmarks.systems import Conditions

Work = Callable[[], object]


def peak(work: Work, rehearsal: Work, conditions: Conditions) -> int:
    """Bytes that ``work`` takes at most, what it builds included.

    On the CPU by how much the process's resident memory grows at its peak, on CUDA by what PyTorch's allocator hands
    out at most.

    Args:
        work: can be pickled, as can the rehearsal
        rehearsal: the like with the smallest of models, before the growth counts: it loads libraries
    """
    with fresh_processes(1) as process:
        return process.submit(_peak, work, rehearsal, conditions).result()


def _peak(work: Work, rehearsal: Work, conditions: Conditions) -> int:
    conditions.apply()
    rehearsal()
    if conditions.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        work()
        return torch.cuda.max_memory_allocated()
    before = _status("VmRSS")
    work()
    return _status("VmHWM") - before


def _status(entry: str) -> int:
    """Linux's count, in bytes; unlike getrusage's, it is the process's own and not inherited."""
    found = re.search(rf"^{entry}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])
