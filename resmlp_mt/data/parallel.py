"""Work over a stream by several processes: in order, and without holding it all in memory."""

import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Protocol, TypeVar

from resmlp_mt.common.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")
Pair = tuple[bytes, bytes]
CHUNK = 1000  # pairs sent to a worker at once
CHUNK_BYTES = 4 << 20  # fewer pairs are sent at once if their lines have more bytes than this
HELP = "processes at most; never more than cores or pieces of 1,000 pairs; any number gives the same bytes"


class Workers(Protocol):
    """What ``ordered_map`` can work by in the place of processes of this machine (``cluster.Cluster``).

    Attributes:
        jobs: processes or threads for what has to stay on this machine
    """

    jobs: int

    def map(self, make_function: Callable[[], Callable[[Item], Result]], items: Iterable[Item]) -> Iterator[Result]:
        """``ordered_map``."""


Jobs = int | Workers

_make_function: Callable[[], Callable[[Any], Any]]  # in a worker process: what builds the function
_function: Callable[[Any], Any] | None = None  # what it applies, once built


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
    """Yield the pairs of a stream, ``CHUNK`` of them at a time or ``CHUNK_BYTES``."""
    some: list[Pair] = []
    first, size = 1, 0
    for pair in pairs:
        some.append(pair)
        size += len(pair[0]) + len(pair[1])
        if len(some) == CHUNK or size >= CHUNK_BYTES:
            yield Chunk(first, some)
            first += len(some)
            some, size = [], 0
    if some:
        yield Chunk(first, some)


def local_jobs(jobs: Jobs) -> int:
    """How many processes or threads what stays on this machine may have."""
    return jobs if isinstance(jobs, int) else jobs.jobs


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def ordered_map(
    make_function: Callable[[], Callable[[Item], Result]], items: Iterable[Item], jobs: Jobs = 1
) -> Iterator[Result]:
    """Yield ``function(item)`` for every item, in the order of the items, whatever the number of processes.

    Args:
        make_function: builds the function, once in each process (picklable, as ``functools.partial`` of a class is)
        items: a stream of picklable things, each worth the way to a process; only a few of them are held at a time
        jobs: processes at most: never more than cores or items, and with one it is this one that works; or other
            workers

    Raises:
        UserError: a worker process was killed or cannot be started; any other error of a worker is raised here as it is
    """
    if not isinstance(jobs, int):
        yield from jobs.map(make_function, items)
        return
    stream = iter(items)
    first = list(islice(stream, min(jobs, cores())))
    stream = chain(first, stream)
    if len(first) < 2:
        function = make_function()
        for item in stream:
            yield function(item)
        return
    pending: deque[Future[Result]] = deque()
    workers: set[Any] = set()
    with ProcessPoolExecutor(len(first), initializer=_start_worker, initargs=(make_function,)) as pool:
        try:
            for item in stream:
                with _starting(workers):
                    pending.append(pool.submit(_apply, item))
                if len(pending) > 2 * len(first):
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise UserError("a worker process was killed (out of memory?): try again with fewer --jobs") from error
        except BaseException:  # Ctrl-C, also while the caller has the turn: then it is GeneratorExit here
            _kill(workers)  # what they are at may take a minute, and nobody waits for it
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def applied(function: Callable[[Item], Result], item: Item) -> Result:
    """``function(item)``, in a worker: an error that would not survive the way home becomes one that does."""
    try:
        return function(item)
    except MemoryError:
        raise UserError("a worker process has no memory left: try again with fewer of them at a time") from None
    except OSError as error:  # the main process would take it for an error of the file that it writes
        raise UserError(f"{error.filename or 'a worker process'}: {error.strerror or repr(error)}") from None
    except Exception as error:
        failure = _portable(error)
    raise failure  # outside of the except clause: without a context, which might not be picklable


def _portable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error


@contextlib.contextmanager
def _starting(workers: set[Any]) -> Iterator[None]:
    """Add to ``workers`` the processes that are started meanwhile."""
    # Ctrl-C reaches all processes of a terminal. This one ends the workers: they ignore the signal from their start.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    others = set(multiprocessing.active_children())
    try:
        yield
    except OSError as error:
        _kill(set(multiprocessing.active_children()) - others)  # else Python would wait for them at exit
        raise UserError(
            f"worker processes cannot be started ({error.strerror or error}): try again with fewer --jobs"
        ) from error
    finally:
        workers |= set(multiprocessing.active_children()) - others
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _kill(workers: set[Any]) -> None:
    for worker in workers:
        worker.kill()
        worker.join()


def _start_worker(make_function: Callable[[], Callable[[Any], Any]]) -> None:
    global _make_function, _function
    _make_function, _function = make_function, None
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Memory from before the fork is shared with the parent: the garbage collector's marks would make copies of it.
    gc.freeze()
    # Without this, a worker would wait for ever after its parent was killed.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _apply(item: Any) -> Any:
    return applied(_built, item)


def _built(item: Any) -> Any:
    global _function
    if _function is None:  # not built at the start of the process: here its errors reach the main process
        _function = _make_function()
    return _function(item)
