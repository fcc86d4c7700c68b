"""Work over a stream by processes or a Dask cluster: in order, without holding it all in memory, the same bytes."""

import asyncio
import contextlib
import ctypes
import gc
import hashlib
import logging
import multiprocessing
import os
import pickle
import platform
import secrets
import signal
import socket
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from importlib import metadata
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import resmlp_mt
from resmlp_mt.common.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")
IN_FLIGHT = 3  # items for each worker: one at work, one on each way


class Workers:
    """What ``ordered_map`` works by: an executor, or this process alone; ``jobs`` for what stays on this machine."""

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
    """Yield ``function(item)`` for every item of a stream, in order; only a few of them are held at a time.

    ``make_function`` builds the function once in each process. It and the items can be pickled.
    """
    stream = iter(items)
    first = list(islice(stream, 2))
    if workers.executor is None or len(first) < 2:
        yield from map(make_function(), chain(first, stream))
        return
    key = secrets.token_hex(8)
    shared = workers.shared(pickle.dumps(make_function))
    most = IN_FLIGHT * workers.count()
    pending: deque[Future[bytes]] = deque()
    for item in chain(first, stream):
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes: the first ends the others
    gc.freeze()  # memory that is shared with the parent: the garbage collector's marks would make copies of it
    end_with_parent()


_libc = ctypes.CDLL(None)


def end_with_parent() -> None:
    """Let this process, a child of another, end as soon as that is killed: it would wait or work for nobody."""
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, which Linux has


LIBRARIES = ("regex", "sacremoses", "sentencepiece", "subword-nmt")  # that decide what workers make of a line
CONNECTING = 15.0  # seconds to wait for the scheduler to answer
WAITING = 60.0  # seconds to wait for a first worker, or for a new one after the last has gone


class Cluster(Workers):
    """The worker processes of a Dask cluster, by the address of its scheduler. Use in a ``with`` statement.

    Dask replaces workers that are killed and does their work again; those that come later are used too.
    """

    def __init__(self, address: str, jobs: int = 1):
        self._address = address
        try:
            import distributed
        except ImportError as error:
            raise self._error(f"Dask cannot be imported ({error}): pip install 'resmlp-mt[cluster]'") from error
        # Our errors tell in one line what goes wrong, and we compare the versions that matter.
        for name in ("distributed", "distributed.client", "distributed.gc", "tornado.application"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
        self._dask = distributed
        try:
            asyncio.run(self._identity())  # first: a Dask client that finds no scheduler does not end cleanly
            self._client = distributed.Client(address, timeout=CONNECTING, set_as_default=False)
        except Exception as error:  # many kinds: no port in the address, another program that listens there, ...
            why = (str(error).strip() or f"{type(error).__name__}, {CONNECTING:.0f} s").splitlines()[0]
            raise self._error(f"no Dask scheduler answers ({why}): start one with: dask scheduler") from error
        super().__init__(self._client.get_executor(pure=False), jobs)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close(timeout=1)  # what is still computed for us is cancelled

    def count(self) -> int:
        """How many workers there are: at least one, or it waits for one."""
        try:
            self._client.wait_for_workers(1, timeout=WAITING)
            return len(self._client.nthreads())
        except self._dask.exceptions.WorkerStartTimeoutError as error:
            raise self._error(f"no workers for {WAITING:.0f} s: start: dask worker {self._address}") from error
        except Exception as error:
            raise self._error() from error

    def shared(self, pickled: bytes) -> Any:
        """A result, and not an argument, goes but once to each worker."""
        return self._client.submit(bytes, pickle.dumps(partial(_checked, versions(), pickled)), pure=False)

    def result(self, future: "Future[bytes]") -> bytes:
        while True:
            try:
                return future.result(timeout=WAITING)
            except FutureTimeout:
                if future.done():  # its own
                    raise
                self.count()
            except self._dask.KilledWorker as error:
                raise self._error("workers were killed in a row by the same lines (out of memory?)") from error
            except (CancelledError, self._dask.comm.core.CommClosedError) as error:
                raise self._error() from error
            except ImportError as error:
                raise self._error(f"{error}, in a worker or the scheduler: install the same everywhere") from error

    async def _identity(self) -> dict[str, Any]:
        security = self._dask.Security().get_connection_args("client")
        async with self._dask.rpc(self._address, connection_args=security) as scheduler:
            return await asyncio.wait_for(scheduler.identity(), CONNECTING)

    def _error(self, what: str = "the scheduler went away: start it, then run this again: it goes on") -> UserError:
        return UserError(f"--cluster {self._address}: {what}")


def versions() -> dict[str, str]:
    """Of all that decides what a worker makes of a line."""
    texts = (path.read_bytes() for path in sorted(Path(resmlp_mt.__file__).parent.rglob("*.py")))
    sources = hashlib.sha256(b"".join(texts)).hexdigest()[:8]  # the version need not change with every change of them
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "resmlp_mt": f"{resmlp_mt.__version__} with sources {sources}",
        **{name: metadata.version(name) for name in LIBRARIES},
    }


def _checked(needed: dict[str, str], pickled: bytes) -> Callable[[Any], Any]:
    """Build the function in a worker, which may have come late, if it makes the same bytes."""
    for name, version in versions().items():
        if needed.get(name, version) != version:
            who = f"a worker on {socket.gethostname()} (process {os.getpid()})"
            raise UserError(f"{who} has {name} {version}, not {needed[name]}: install the same everywhere")
    return pickle.loads(pickled)()
