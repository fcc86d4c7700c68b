"""Work over a stream by processes: in order, without holding it all in memory, the same bytes."""

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
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any, TypeVar

from resmlp_mt.common.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")
IN_FLIGHT = 3  # items for each worker: one at work, one on each way


@dataclass(frozen=True)
class Workers:
    """What ``ordered_map`` works by: processes, or this one alone."""

    pool: ProcessPoolExecutor | None = None
    jobs: int = 1


ALONE = Workers()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def working(jobs: int) -> Iterator[Workers]:
    """So many processes of this machine, but never more than cores, or this one alone."""
    processes = min(jobs, cores())
    if processes == 1:
        yield ALONE
        return
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(processes, initializer=_start_worker) as pool:
        try:
            yield Workers(pool, processes)
        except BaseException:  # what the workers are at may take a minute, and nobody waits for it
            for worker in set(multiprocessing.active_children()) - others:
                worker.kill()
            raise


def ordered_map(
    make_function: Callable[[], Callable[[Item], Result]], items: Iterable[Item], workers: Workers = ALONE
) -> Iterator[Result]:
    """Yield ``function(item)`` for every item of a stream, in order; only a few of them are held at a time.

    ``make_function`` builds the function once in each process. It and the items can be pickled.
    """
    stream = iter(items)
    first = [] if workers.pool is None else list(islice(stream, 2))  # alone, what comes slowly is not waited for
    if workers.pool is None or len(first) < 2:
        yield from map(make_function(), chain(first, stream))
        return
    key, pickled = secrets.token_hex(8), pickle.dumps(make_function)
    pending: deque[Future[Any]] = deque()
    try:
        for item in chain(first, stream):
            pending.append(workers.pool.submit(_apply, key, pickled, item))
            if len(pending) >= IN_FLIGHT * workers.jobs:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise UserError("a worker process was killed (out of memory?): try again with fewer --jobs") from error


def _apply(key: str, pickled: bytes, item: Any) -> Any:
    return _function(key, pickled)(item)


@lru_cache(maxsize=2)
def _function(key: str, pickled: bytes) -> Callable[[Any], Any]:
    """The function of one ``ordered_map``, which the key names: the same bytes may stand for another later."""
    return pickle.loads(pickled)()


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes: the first ends the others
    gc.freeze()  # memory that is shared with the parent: the garbage collector's marks would make copies of it
    end_with_parent()


_libc = ctypes.CDLL(None)


def end_with_parent() -> None:
    """Let this process, a child of another, end as soon as that is killed: it would wait or work for nobody."""
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, which Linux has
