"""The steps' work on a Dask cluster: many machines that see one disk, the same bytes as on one."""

import asyncio
import contextlib
import hashlib
import logging
import os
import pickle
import platform
import secrets
import socket
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any

import resmlp_mt
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import UNFINISHED, PathLike
from resmlp_mt.data.parallel import Item, Jobs, Result, applied

HELP = (
    "work by the Dask cluster whose scheduler is at ADDRESS, such as tcp://host:8786, with the same bytes; OUT must be "
    "on a disk that all its machines see, and they need the same versions as this one"
)
LIBRARIES = ("regex", "sacremoses", "sentencepiece", "subword-nmt")  # that decide what workers make of a line
CONNECTING = 15.0  # seconds to wait for the scheduler to answer
WAITING = 60.0  # seconds to wait for a first worker, or for a new one after the last has gone
LOOKING = 1.0  # seconds after which the workers are counted again
AT_ONCE = 8  # chunks of a task: each task costs the scheduler some milliseconds
FORGOTTEN = 600.0  # seconds after which a worker drops a function that is not used any more
IN_FLIGHT = 3  # tasks for each worker: one at work, one on each way


@contextlib.contextmanager
def working(jobs: int, address: str | None, folder: PathLike) -> Iterator[Jobs]:
    """What to work by: a Dask cluster if there is an address, else processes of this machine.

    Args:
        jobs: processes of this machine
        address: of a scheduler, such as ``tcp://host:8786``
        folder: where the steps write, which all workers must see

    Raises:
        UserError: nothing that can be worked with is there
    """
    if address is None:
        yield jobs
        return
    with Cluster(address, folder, jobs) as cluster:
        yield cluster


class Cluster:
    """The worker processes of a Dask cluster, as ``parallel.Workers``. Use in a ``with`` statement.

    Dask replaces workers that are killed and does their work again; those that come later are used too. Each computes
    one chunk at a time (more threads are of no use), and keeps what it needs for a step no longer than the step.

    Args:
        address: of the scheduler, such as ``tcp://host:8786``
        folder: where the steps write, which all workers must see, under the same name; None: they write nothing
        jobs: processes or threads for what has to stay on this machine

    Raises:
        UserError: Dask is not installed, no scheduler answers, it has no workers, or one of them could make other bytes
    """

    def __init__(self, address: str, folder: PathLike | None = None, jobs: int = 1):
        self.jobs = jobs
        self._address = address
        self._folder = None if folder is None else Path(folder).absolute()
        self._requirements = _Requirements(_versions())
        self._workers = 0
        self._counted = self._seen = float("-inf")
        try:
            import distributed
        except ImportError as error:
            raise UserError(
                f"--cluster {address}: Dask cannot be imported ({error}): pip install 'resmlp-mt[cluster]'"
            ) from error
        # Our errors tell in one line what goes wrong: Dask's log would repeat it.
        for name in ("distributed", "distributed.client", "distributed.gc"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        # Dask compares versions too; we compare those that matter.
        warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
        self._dask = distributed
        try:
            # Try the address first: a Dask client that finds no scheduler does not end cleanly.
            if (there := asyncio.run(self._identity())["type"]) != "Scheduler":
                raise ValueError(f"a {there} is there")
            self._client = distributed.Client(address, timeout=CONNECTING, set_as_default=False)
        except Exception as error:  # many kinds: no port in the address, another program that listens there, ...
            why = (str(error).strip() or f"{type(error).__name__}, {CONNECTING:.0f} s").splitlines()[0]
            raise self._error(f"no Dask scheduler answers ({why}): start one with: dask scheduler") from error
        try:
            self._check_scheduler()
            self._check_workers()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; what it still computes for us is cancelled."""
        if self._requirements.marker:
            self._requirements.marker.unlink(missing_ok=True)
        self._client.close(timeout=1)

    def map(self, make_function: Callable[[], Callable[[Item], Result]], items: Iterable[Item]) -> Iterator[Result]:
        """``parallel.ordered_map``."""
        self._mark()
        step = secrets.token_hex()
        # A result, and not an argument, goes but once to each worker. The scheduler handles bytes alone.
        function = self._submit(_same, pickle.dumps((self._requirements, make_function)))
        pending: deque[Any] = deque()
        stream = iter(items)
        try:
            while some := list(islice(stream, AT_ONCE)):
                pending.append(self._submit(_apply, step, function, pickle.dumps(some)))
                while len(pending) > IN_FLIGHT * max(1, self._count()):
                    yield from self._results(pending.popleft())
            while pending:
                yield from self._results(pending.popleft())
        finally:
            with contextlib.suppress(Exception):
                self._client.cancel([function, *pending])
                self._client.run(_forget, step, on_error="ignore")

    def _mark(self) -> None:
        # Not before the first step, since the folder may not be ours before that.
        if self._folder is None:
            return
        if self._requirements.marker is None or not self._requirements.marker.exists():  # an earlier run has removed it
            place = self._folder / UNFINISHED  # cleared by the next run, should this one be killed
            place = place if place.is_dir() else self._folder
            marker, text = place / f".cluster.{secrets.token_hex(8)}.tmp", secrets.token_hex()
            try:
                marker.write_text(text)
            except OSError as error:
                raise UserError(f"{marker}: cannot be written: {error.strerror or error}") from error
            self._requirements = replace(self._requirements, folder=self._folder, marker=marker, text=text)
            self._check_workers()

    def _submit(self, function: Callable[..., bytes], *args: Any) -> Any:
        with self._told():
            return self._client.submit(function, *args, pure=False)

    def _results(self, future: Any) -> list[Any]:
        with self._told():
            while True:
                try:  # never without a timeout: a result that is there can be lost again with its worker
                    return pickle.loads(future.result(timeout=LOOKING))
                except self._dask.TimeoutError:
                    if future.status == "error":  # its own, which may be a TimeoutError too
                        future.result()
                self._count()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Say in one line what went wrong with Dask; errors of the work are left as they are."""
        try:
            yield
        except self._dask.KilledWorker as error:
            times = error.allowed_failures + 1
            raise self._error(f"{times} workers were killed in a row by the same lines (out of memory?)") from error
        except (
            self._dask.CancelledError,
            self._dask.client.ClosedClientError,
            self._dask.comm.core.CommClosedError,
        ) as error:
            raise self._gone() from error
        except ImportError as error:
            raise self._error(f"{error}, in a worker or the scheduler: install the same everywhere") from error

    def _count(self) -> int:
        """How many workers there are, found out again now and then."""
        now = time.monotonic()
        if now - self._counted >= LOOKING:
            try:
                self._workers = len(self._client.nthreads())
            except Exception as error:
                raise self._gone() from error
            self._counted = now
            if self._workers:
                self._seen = now
            elif now - self._seen > WAITING:
                raise self._error(f"no workers for {WAITING:.0f} s: start some with: dask worker {self._address}")
        return self._workers

    async def _identity(self) -> dict[str, Any]:
        security = self._dask.Security().get_connection_args("client")
        async with self._dask.rpc(self._address, connection_args=security) as scheduler:
            return await asyncio.wait_for(scheduler.identity(), CONNECTING)

    def _check_scheduler(self) -> None:
        try:
            self._client.run_on_scheduler(_versions)
        except ImportError as error:
            raise self._error(f"the scheduler lacks what its workers need ({error}): install the same there") from error
        except Exception as error:
            raise self._gone() from error

    def _check_workers(self) -> None:
        self._seen, self._counted = time.monotonic(), float("-inf")
        while not self._count():
            time.sleep(0.1)
        try:
            told = self._client.run(self._requirements.unmet, on_error="return")
        except Exception as error:
            raise self._gone() from error
        for worker, unmet in told.items():
            if isinstance(unmet, Exception) and not isinstance(unmet, OSError):
                raise self._error(f"the worker at {worker} lacks this package ({unmet}): install the same everywhere")
            if isinstance(unmet, str):  # (else it has just died, and Dask replaces it)
                raise self._error(unmet)

    def _gone(self) -> UserError:
        return self._error("the scheduler went away: start it, then run this again: it goes on")

    def _error(self, what: str) -> UserError:
        return UserError(f"--cluster {self._address}: {what}")


@dataclass(frozen=True)
class _Requirements:
    """What a worker must have, or the bytes could be others.

    Attributes:
        versions: of all that decides them
        folder: what it must see
        marker: a file in it, if it is there already
        text: what stands in it
    """

    versions: dict[str, str]
    folder: Path | None = None
    marker: Path | None = None
    text: str = ""

    def unmet(self) -> str | None:
        """What this process lacks."""
        who = f"a worker on {socket.gethostname()} (process {os.getpid()})"
        here = _versions()
        for name, version in self.versions.items():
            if here.get(name) != version:
                return f"{who} has {name} {here.get(name)}, not {version}: install the same everywhere"
        if self.marker:
            try:
                seen = self.marker.read_text() == self.text
            except OSError:
                seen = False
            if not seen:
                return f"{who} does not see {self.folder}: put it on a disk that all machines see by this name"
        return None


_functions: dict[
    str, tuple[Callable[[Any], Any], float]
] = {}  # in a worker process: functions, and when each was last used
_lock = threading.Lock()  # the functions are not thread-safe


def _apply(step: str, pickled: bytes, items: bytes) -> bytes:
    return pickle.dumps(applied(partial(_all, step, pickled), pickle.loads(items)))


def _all(step: str, pickled: bytes, items: list[Any]) -> list[Any]:
    with _lock:
        if step not in _functions:
            requirements, make_function = pickle.loads(pickled)
            if unmet := requirements.unmet():
                raise UserError(unmet)
            _functions[step] = make_function(), time.monotonic()
        function, _ = _functions[step]
        results = [function(item) for item in items]
        now = time.monotonic()
        _functions[step] = function, now
        for other in [name for name, (_, used) in _functions.items() if now - used > FORGOTTEN]:
            del _functions[other]
        return results


def _forget(step: str) -> None:
    _functions.pop(step, None)


def _same(pickled: bytes) -> bytes:
    return pickled


def _versions() -> dict[str, str]:
    """Of all that decides what a worker makes of a line."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "byte order": sys.byteorder,
        "resmlp_mt": f"{resmlp_mt.__version__} with sources {_sources()}",
        **{name: _version(name) for name in LIBRARIES},
    }


def _sources() -> str:
    """A short checksum of the package's code, whose changes need not change the version."""
    texts = (path.read_bytes() for path in sorted(Path(resmlp_mt.__file__).parent.rglob("*.py")))
    return hashlib.sha256(b"".join(texts)).hexdigest()[:8]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "(not installed)"
