"""One run at a time: a lock on an open file."""

import errno
import time
from pathlib import Path
from typing import IO, Any

import portalocker

from resmlp_mt.common.errors import UserError

PAUSE = 0.05  # seconds between two attempts
TAKEN = (errno.EACCES, errno.EAGAIN)  # of another run; other errors come from disks that have no locks


def lock(file: IO[Any], refusal: str, patience: float = 0.0) -> None:
    """Lock a file for this process, and for the child processes that have it open: until all of them have closed it.

    Args:
        file: open for writing
        refusal: the message where another run has the lock
        patience: seconds for which it is tried again
    """
    end = time.monotonic() + patience
    while True:
        try:
            portalocker.lock(file, portalocker.LOCK_EX | portalocker.LOCK_NB)
            return
        except portalocker.LockException as error:
            why = error.args[0]
            if isinstance(why, OSError) and why.errno not in TAKEN:
                raise UserError(
                    f"{file.name}: cannot be locked: {why.strerror}: choose a folder on another disk"
                ) from error
            if time.monotonic() >= end:
                raise UserError(refusal) from error
        time.sleep(PAUSE)


def lock_folder(folder: Path, refusal: str, patience: float = 0.0) -> IO[str]:
    """Make a folder if it is missing and lock its ``.lock``, which is returned open; arguments as those of ``lock``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".lock", "a")  # noqa: SIM115 (closed by the caller)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror or error}") from error
    try:
        lock(file, refusal, patience)
    except UserError:
        file.close()
        raise
    return file
