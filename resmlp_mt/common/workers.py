"""Process a stream in parallel chunks: in order, few held at a time, the same bytes with any number of processes."""

import contextlib
import ctypes
import gc
import multiprocessing
import os
import pickle
import secrets
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Lines = TypeVar("Lines", bytes, tuple[bytes, bytes])  # of one text, or of two texts that are aligned
IN_FLIGHT = 3  # items for each worker: one at work, one on each way
CHUNK = 1000  # lines, or pairs of lines
CHUNK_BYTES = 4 << 20  # a chunk has fewer lines if they reach this number of bytes


@dataclass(frozen=True)
class Chunk(Generic[Lines]):
    """Consecutive lines, or pairs of lines, as bytes without line ends; ``first``: the number of the first one."""

    first: int
    lines: list[Lines]


def chunks(lines: Iterable[Lines], least: int = CHUNK, most: int = CHUNK, first: int = 1) -> Iterator[Chunk[Lines]]:
    """Yield lines, or pairs of lines, in chunks of ``least``, then of twice as many each time, up to ``most``."""
    some: list[Lines] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line) if isinstance(line, bytes) else sum(map(len, line))
        if len(some) >= least or size >= CHUNK_BYTES:
            yield Chunk(first, some)
            first, least = first + len(some), min(2 * least, most)
            some, size = [], 0
    if some:
        yield Chunk(first, some)


@dataclass(frozen=True)
class Workers:
    """What ``ordered_map`` runs on: a pool of processes, or this process alone."""

    pool: ProcessPoolExecutor | None = None
    jobs: int = 1


ALONE = Workers()


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def cpuinfo(*names: str) -> str:
    """Return the first line of /proc/cpuinfo that begins with one of these names, or "" if there is none."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        return next((line for line in lines if line.startswith(names)), "")
    return ""


@contextlib.contextmanager
def working(jobs: int) -> Iterator[Workers]:
    """Yield ``jobs`` worker processes, at most one for each core; instead of a single one, this process alone."""
    processes = min(jobs, cores())
    if processes == 1:
        yield ALONE
        return
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(processes, initializer=_start_worker) as pool:
        try:
            yield Workers(pool, processes)
        except BaseException:  # the workers' current items may take a minute: do not wait for them
            for worker in set(multiprocessing.active_children()) - others:
                worker.kill()
            raise


def ordered_map(
    make_function: Callable[[], Callable[[Item], Result]], items: Iterable[Item], workers: Workers = ALONE
) -> Iterator[Result]:
    """Yield ``function(item)`` for every item of a stream, in order; only a few of them are held at a time.

    ``make_function`` builds the function once in each process. It and the items must be picklable.
    """
    if workers.pool is None:
        yield from map(make_function(), items)
        return
    key, pickled = secrets.token_hex(8), pickle.dumps(make_function)
    pending: deque[Future[Any]] = deque()
    for item in items:
        pending.append(workers.pool.submit(_apply, key, pickled, item))
        if len(pending) >= IN_FLIGHT * workers.jobs:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _apply(key: str, pickled: bytes, item: Any) -> Any:
    return _function(key, pickled)(item)


@lru_cache(maxsize=2)
def _function(key: str, pickled: bytes) -> Callable[[Any], Any]:
    """Return the function of the ``ordered_map`` with this key, which a process makes once."""
    return pickle.loads(pickled)()


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes: the parent ends its workers
    gc.freeze()  # else the garbage collector's marks would copy the memory that is shared with the parent
    end_with_parent()


_libc = ctypes.CDLL(None)


def end_with_parent() -> None:
    """Make sure that this process is killed together with its parent: it would wait or work for nobody."""
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, on Linux only
