"""The workers of a Dask cluster: many machines, the same bytes as on one."""

import asyncio
import concurrent.futures
import hashlib
import logging
import os
import pickle
import platform
import socket
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import resmlp_mt
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.workers import Workers

LIBRARIES = ("regex", "sacremoses", "sentencepiece", "subword-nmt")  # that decide what workers make of a line
CONNECTING = 15.0  # seconds to wait for the scheduler to answer
WAITING = 60.0  # seconds to wait for a first worker, or for a new one after the last has gone


class Cluster(Workers):
    """The worker processes of a Dask cluster. Use in a ``with`` statement.

    Dask replaces workers that are killed and does their work again; those that come later are used too.

    Args:
        address: of the scheduler, such as ``tcp://host:8786``
        jobs: processes or threads for what has to stay on this machine
    """

    def __init__(self, address: str, jobs: int = 1):
        self._address = address
        try:
            import distributed
        except ImportError as error:
            raise self._error(f"Dask cannot be imported ({error}): pip install 'resmlp-mt[cluster]'") from error
        # Our errors tell in one line what goes wrong: Dask's log would repeat it.
        for name in ("distributed", "distributed.client", "distributed.gc", "tornado.application"):
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
        super().__init__(self._client.get_executor(pure=False), jobs)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the cluster; what it still computes for us is cancelled."""
        self._client.close(timeout=1)

    def count(self) -> int:
        """How many workers there are: at least one, or it waits for one."""
        end = time.monotonic() + WAITING
        while True:
            try:
                number = len(self._client.nthreads())
            except Exception as error:
                raise self._gone() from error
            if number:
                return number
            if time.monotonic() > end:
                raise self._error(f"no workers for {WAITING:.0f} s: start some with: dask worker {self._address}")
            time.sleep(0.2)

    def shared(self, pickled: bytes) -> Any:
        """A result, and not an argument, goes but once to each worker."""
        return self._client.submit(_same, pickle.dumps(partial(_checked, versions(), pickled)), pure=False)

    def result(self, future: "concurrent.futures.Future[bytes]") -> bytes:
        while True:
            try:
                return future.result(timeout=WAITING)
            except concurrent.futures.TimeoutError:
                if future.done():  # its own
                    raise
                self.count()
            except self._dask.KilledWorker as error:
                raise self._error("workers were killed in a row by the same lines (out of memory?)") from error
            except (concurrent.futures.CancelledError, self._dask.comm.core.CommClosedError) as error:
                raise self._gone() from error
            except ImportError as error:
                raise self._error(f"{error}, in a worker or the scheduler: install the same everywhere") from error

    async def _identity(self) -> dict[str, Any]:
        security = self._dask.Security().get_connection_args("client")
        async with self._dask.rpc(self._address, connection_args=security) as scheduler:
            return await asyncio.wait_for(scheduler.identity(), CONNECTING)

    def _gone(self) -> UserError:
        return self._error("the scheduler went away: start it, then run this again: it goes on")

    def _error(self, what: str) -> UserError:
        return UserError(f"--cluster {self._address}: {what}")


def versions() -> dict[str, str]:
    """Of all that decides what a worker makes of a line."""
    texts = (path.read_bytes() for path in sorted(Path(resmlp_mt.__file__).parent.rglob("*.py")))
    sources = hashlib.sha256(b"".join(texts)).hexdigest()[:8]  # the version need not change with every change of them
    found = {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "byte order": sys.byteorder,
        "resmlp_mt": f"{resmlp_mt.__version__} with sources {sources}",
    }
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "(not installed)"
    return found


def _checked(needed: dict[str, str], pickled: bytes) -> Callable[[Any], Any]:
    """Build the function in a worker, which may have come late, if it makes the same bytes."""
    here = versions()
    for name, version in needed.items():
        if here[name] != version:
            who = f"a worker on {socket.gethostname()} (process {os.getpid()})"
            raise UserError(f"{who} has {name} {here[name]}, not {version}: install the same everywhere")
    return pickle.loads(pickled)()


def _same(pickled: bytes) -> bytes:
    return pickled
