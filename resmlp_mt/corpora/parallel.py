"""Work over a stream by several processes: in order, and without holding it all in memory."""

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from resmlp_mt.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")
Pair = tuple[bytes, bytes]
CHUNK = 1000  # pairs sent to a worker at once

_function: Callable[[Any], Any]  # what a worker process applies


@dataclass(frozen=True)
class Chunk:
    """Some pairs of lines that follow each other.

    Attributes:
        first: the number of the first one in its source, counted from 1
        pairs: the lines, without line ends
    """

    first: int
    pairs: list[Pair]


def chunks(pairs: Iterable[Pair]) -> Iterator[Chunk]:
    """Yield the pairs of a stream, ``CHUNK`` of them at a time."""
    stream = iter(pairs)
    first = 1
    while some := list(islice(stream, CHUNK)):
        yield Chunk(first, some)
        first += len(some)


def ordered_map(
    make_function: Callable[[], Callable[[Item], Result]], items: Iterable[Item], jobs: int = 1
) -> Iterator[Result]:
    """Yield ``function(item)`` for every item, in the order of the items, whatever the number of processes.

    Args:
        make_function: builds the function, once in each process (picklable, as ``functools.partial`` of a class is)
        items: a stream of picklable things, each worth the way to a process; only a few of them are held at a time
        jobs: number of processes; 1 works in this one

    Raises:
        UserError: a worker process was killed; any other error of a worker is raised here as it is
    """
    if jobs == 1:
        yield from map(make_function(), items)
        return
    pending: deque[Future[Result]] = deque()
    with ProcessPoolExecutor(jobs, initializer=_start_worker, initargs=(make_function,)) as pool:
        try:
            for item in items:
                with _undisturbed():
                    pending.append(pool.submit(_apply, item))
                if len(pending) > 2 * jobs:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise UserError("a worker process was killed (out of memory?): try again with fewer --jobs") from error
        finally:
            pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let Ctrl-C wait: it would end a process amid its start with a traceback, and the pool could not be shut down."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _start_worker(make_function: Callable[[], Callable[[Any], Any]]) -> None:
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches workers too, but their parent alone ends the work
    # What was there before the fork stays shared with the parent: the garbage collector would copy it by looking at it.
    gc.freeze()
    _function = make_function()
    # A worker would wait for ever for a parent that `kill -9` took away.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _apply(item: Any) -> Any:
    return _function(item)
