"""The engine of an exported folder, and processes for one engine each, which measure its time and memory.

An engine has ``translate(sentences)``. For fairseq's (``workloads.FairseqEngine``), CTranslate2 and Marian (``rivals``)
a sentence is a list of subwords; a folder translates text.

This module imports nothing large, so a process holds only what its own engine loads.
"""

import logging
import multiprocessing
import re
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from resmlp_mt.common.workers import end_with_parent

PRELOADED = ["resmlp_mt.lab.benchmarks.workloads"]  # imported once, in the process of the forkserver


class FolderEngine:
    """A folder made by ``resmlp-mt export``, translated with ``Translator``, from text to text.

    ``options`` are ``precision``, ``engine``, and fields of ``translate.options.Options`` such as ``batch_tokens``.
    """

    def __init__(self, folder: str, threads: int, beam: int, options: dict[str, Any]):
        from resmlp_mt.translate.options import Options
        from resmlp_mt.translate.translator import Translator

        given = dict(options)
        own = {name: given.pop(name) for name in ("precision", "engine") if name in given}
        self._options = {"beam": beam, **given, "n_best": 1}
        Options(**self._options)  # a wrong option is an error before anything is measured
        self._translator = Translator(folder, threads=threads, **own)

    def translate(self, sentences: Sequence[str]) -> list[str]:
        return [each.text for each in self._translator.translate(sentences, **self._options)]


class EngineProcess:
    """An engine alone in its own process; ``build``, which must be picklable, makes it there."""

    def __init__(self, build: Callable[[], Any], start: str = "spawn"):
        self._process = new_process(start)
        try:
            self.formula = self._process.submit(_build, build).result()  # of the engine's FLOPs, if there is one
        except BaseException:
            self.close()
            raise

    def translate(self, *given: Any) -> tuple[list[Any], float]:
        """Return what the engine's ``translate`` returns, and the seconds that it took."""
        return self._process.submit(_timed, *given).result()

    def peak(self) -> int:
        return self._process.submit(memory, "VmHWM").result()

    def close(self) -> None:
        self._process.shutdown()


_engine: list[Any] = []  # the engine of this process


def _build(build: Callable[[], Any]) -> Any:
    _engine[:] = [build()]
    return getattr(_engine[0], "formula", None)


def _timed(*given: Any) -> tuple[list[Any], float]:
    start = time.perf_counter()
    translations = _engine[0].translate(*given)
    return translations, time.perf_counter() - start


def quiet() -> None:
    """Switch off fairseq's progress messages and all warnings."""
    for package in "fairseq", "fairseq_cli":
        logging.getLogger(package).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")


def _quiet_process() -> None:
    end_with_parent()
    quiet()
    logging.disable(logging.WARNING)  # of other packages, too: fairseq sets logging to show them all


def start_of(device: str) -> str:
    """Return the start method of a process with fairseq: a fork cannot use a GPU that its parent has looked for."""
    return "spawn" if device == "cuda" else "forkserver"


def new_process(start: str = "forkserver") -> ProcessPoolExecutor:
    """Return a process that has used no thread and no GPU; with ``forkserver`` fairseq is imported already."""
    context = multiprocessing.get_context(start)
    if start == "forkserver":
        context.set_forkserver_preload(PRELOADED)
    return ProcessPoolExecutor(1, mp_context=context, initializer=_quiet_process)


def peak(work: Callable[[], object], rehearsal: Callable[[], object], device: str) -> int:
    """Return by how many bytes ``work`` makes a new process grow at its peak; ``rehearsal`` loads the libraries before.

    Both must be picklable. On CUDA it is the peak of what PyTorch's allocator hands out.
    """
    with new_process(start_of(device)) as process:
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
    """Return an entry of /proc/self/status, in bytes; getrusage would include a parent's peak."""
    found = re.search(rf"^{entry}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])
