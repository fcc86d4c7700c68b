"""Work over a stream by several workers: in order, and without holding it all in memory."""

import contextlib
import gc
import multiprocessing
import os
import pickle
import secrets
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from itertools import chain, islice
from typing import Any, TypeVar

from resmlp_mt.common.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")
IN_FLIGHT = 3  # items for each worker: one at work, one on each way
HELP = "processes, never more than cores; any number gives the same bytes"
HELP_CLUSTER = (
    "work by the Dask cluster whose scheduler is at ADDRESS, such as tcp://host:8786, with the same bytes; its "
    "machines need the same versions as this one"
)


class Workers:
    """What ``ordered_map`` works by: this process alone, or any executor of ``concurrent.futures``.

    Attributes:
        executor: None: this process works
        jobs: processes or threads for what has to stay on this machine
    """

    def __init__(self, executor: Executor | None = None, jobs: int = 1):
        self.executor, self.jobs = executor, jobs

    def count(self) -> int:
        """How many workers there are."""
        return self.jobs

    def shared(self, pickled: bytes) -> Any:
        """What all items are sent with in the place of these bytes."""
        return pickled

    def result(self, future: "Future[bytes]") -> bytes:
        """What a worker has made."""
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise UserError("a worker process was killed (out of memory?): try again with fewer --jobs") from error


ALONE = Workers()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def working(jobs: int, address: str | None = None) -> Iterator[Workers]:
    """Workers: those of the Dask cluster at an address, or so many processes of this machine, or this one alone."""
    processes = min(jobs, cores())
    if address is not None:
        from resmlp_mt.common.cluster import Cluster

        with Cluster(address, processes) as cluster:
            yield cluster
    elif processes == 1:
        yield ALONE
    else:
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
    """Yield ``function(item)`` for every item, in the order of the items, whatever works.

    Args:
        make_function: builds the function, once in each process (picklable, as ``functools.partial`` of a class is)
        items: a stream of picklable things, each worth the way to a process; only a few of them are held at a time
        workers: with a single item, it is this process that works
    """
    stream = iter(items)
    first = list(islice(stream, 2))
    stream = chain(first, stream)
    if workers.executor is None or len(first) < 2:
        function = make_function()
        for item in stream:
            yield function(item)
        return
    key = secrets.token_hex(8)
    shared = workers.shared(pickle.dumps(make_function))
    most = IN_FLIGHT * workers.count()
    pending: deque[Future[bytes]] = deque()
    for item in stream:
        pending.append(workers.executor.submit(_apply, key, shared, pickle.dumps(item)))
        if len(pending) >= most:
            yield pickle.loads(workers.result(pending.popleft()))
    while pending:
        yield pickle.loads(workers.result(pending.popleft()))


_lock = threading.Lock()  # a worker of Dask has threads, the functions are not thread-safe


def _apply(key: str, pickled: bytes, item: bytes) -> bytes:
    with _lock:
        return pickle.dumps(_function(key, pickled)(pickle.loads(item)))


@lru_cache(maxsize=2)
def _function(key: str, pickled: bytes) -> Callable[[Any], Any]:
    """The function of one ``ordered_map``, which the key names: the same bytes may stand for another later."""
    return pickle.loads(pickled)()


def _start_worker() -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches all processes of a terminal: the first ends the others
    # Memory from before the fork is shared with the parent: the garbage collector's marks would make copies of it.
    gc.freeze()
    # Without this, a worker would wait for ever after its parent was killed.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
