"""Work over many items by several processes: in order, and without holding them all in memory."""

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from resmlp_mt.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")
CHUNK = 500  # items sent to a worker at once

_function: Callable[[Any], Any]  # what a worker process applies


def ordered_map(
    make_function: Callable[[], Callable[[Item], Result]], items: Iterable[Item], workers: int = 1
) -> Iterator[Result]:
    """Yield ``function(item)`` for every item, in the order of the items, whatever the number of processes.

    Args:
        make_function: builds the function, once in each process (picklable, as ``functools.partial`` of a class is)
        items: a stream; only a few chunks of it are held at a time
        workers: number of processes; 1 works in this one

    Raises:
        UserError: a worker process was killed; any other error of a worker is raised here as it is
    """
    if workers == 1:
        yield from map(make_function(), items)
        return
    stream = iter(items)
    pending: deque[Future[list[Result]]] = deque()
    with ProcessPoolExecutor(workers, initializer=_start_worker, initargs=(make_function,)) as pool:
        try:
            while chunk := list(islice(stream, CHUNK)):
                pending.append(pool.submit(_apply, chunk))
                if len(pending) > 2 * workers:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        except BrokenProcessPool as error:
            raise UserError("a worker process was killed (out of memory?): try again with fewer workers") from error
        finally:
            pool.shutdown(cancel_futures=True)


def _start_worker(make_function: Callable[[], Callable[[Any], Any]]) -> None:
    global _function
    _function = make_function()
    # A worker would wait for ever for a parent that `kill -9` took away.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _apply(chunk: list[Any]) -> list[Any]:
    return [_function(item) for item in chunk]
