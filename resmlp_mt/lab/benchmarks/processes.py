"""Work in processes of its own: an engine alone, and the most memory that a piece of work takes.

This module and ``engines`` import nothing large, so that a process holds what its own engine loads, and nothing else.
"""

import logging
import multiprocessing
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

PRELOADED = ["resmlp_mt.lab.benchmarks.training", "resmlp_mt.lab.benchmarks.fairseq_engine"]
"""What a process of the ``forkserver`` has imported before it begins."""


def quiet() -> None:
    """Print no progress of fairseq's and no warnings."""
    for package in "fairseq", "fairseq_cli":
        logging.getLogger(package).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")


def new_processes(count: int, start: str = "forkserver") -> ProcessPoolExecutor:
    """Processes that have used no thread and no GPU.

    Args:
        start: ``forkserver``: with fairseq imported; ``spawn``: with nothing imported
    """
    context = multiprocessing.get_context(start)
    if start == "forkserver":
        context.set_forkserver_preload(PRELOADED)
    return ProcessPoolExecutor(count, mp_context=context, initializer=quiet)


class EngineProcess:
    """An engine alone in a process of its own.

    Args:
        build: makes the engine there; can be pickled
        start: as for ``new_processes``
    """

    def __init__(self, build: Callable[[], Any], start: str = "spawn"):
        self._process = new_processes(1, start)
        self._process.submit(_build, build).result()

    def translate(self, sentences: Sequence[Any], length: int | None = None) -> tuple[list[Any], float]:
        """Translations as the engine gives them, and the seconds that they took."""
        return self._call(_timed, sentences, length)

    def operations(self, batches: Sequence[tuple[Sequence[Any], int | None]], device: str = "cpu") -> dict[str, float]:
        """Seconds by PyTorch operation of translating batches, each of sentences and their translations' length."""
        return self._call(_operations, batches, device)

    def ask(self, attribute: str) -> Any:
        """An attribute of the engine."""
        return self._call(getattr, attribute)

    def peak(self) -> int:
        """Bytes that the process has taken at most so far."""
        return self._process.submit(memory, "VmHWM").result()

    def close(self) -> None:
        self._process.shutdown()

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._process.submit(_with_engine, function, args).result()


_engine: list[Any] = []
"""The engine of this process."""


def _build(build: Callable[[], Any]) -> None:
    _engine[:] = [build()]


def _with_engine(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return function(_engine[0], *args)


def _timed(engine: Any, sentences: Sequence[Any], length: int | None) -> tuple[list[Any], float]:
    start = time.perf_counter()
    translations = engine.translate(sentences, length)
    return translations, time.perf_counter() - start


def _operations(engine: Any, batches: Sequence[tuple[Sequence[Any], int | None]], device: str) -> dict[str, float]:
    if "torch" not in sys.modules:  # CTranslate2's; PyTorch would count in its memory
        return {"outside of operations": sum(_timed(engine, *batch)[1] for batch in batches)}
    from resmlp_mt.lab.benchmarks.profiling import operations

    return operations(lambda: [engine.translate(*batch) for batch in batches], device)


def peak(work: Callable[[], object], rehearsal: Callable[[], object], device: str, start: str = "forkserver") -> int:
    """Bytes that ``work`` takes at most in a new process, what it builds included.

    On the CPU by how much the process's resident memory grows at its peak, on CUDA by what PyTorch's allocator hands
    out at most.

    Args:
        work: can be pickled, as can the rehearsal
        rehearsal: loads the libraries that ``work`` uses, before the growth counts
    """
    with new_processes(1, start) as process:
        return process.submit(_peak, work, rehearsal, device).result()


def _peak(work: Callable[[], object], rehearsal: Callable[[], object], device: str) -> int:
    rehearsal()
    if device == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()
        work()
        return torch.cuda.max_memory_allocated()
    before = memory("VmRSS")
    work()
    return memory("VmHWM") - before


def memory(entry: str) -> int:
    """Linux's count for this process, in bytes. That of getrusage has a parent's peak in it."""
    found = re.search(rf"^{entry}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])
