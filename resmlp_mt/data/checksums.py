"""sha256 sums of big files, computed once as long as the files stay as they are."""

import hashlib
import os
import time
from pathlib import Path

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, PathLike

SETTLED = 2.0  # seconds after which, on any file system, a new change to a file gives it another time stamp


def sha256_of(path: PathLike) -> str:
    """``digest_of(path, "sha256")``"""
    return digest_of(path, "sha256")


def digest_of(path: PathLike, algorithm: str) -> str:
    """The checksum of a file's bytes, in hexadecimal.

    Raises:
        UserError: the file cannot be read
    """
    digest = hashlib.new(algorithm, usedforsecurity=False)
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


class Checksums:
    """Sums known from earlier, in a file beside what they belong to.

    A sum is believed while the file's inode, size and times are the same: its time of change, which nobody can set,
    moves with every write. As in git, that is not believed of a file that was changed just before it was read, for
    times move in ticks; but it is of our own files, which nobody else may change while we run.

    Args:
        path: where the sums are kept; a broken file, or a broken entry of it, is none
        ours: the folder of our own files
    """

    def __init__(self, path: Path, ours: Path):
        self._known = JsonFile(path, fields={"identity": list, "sha256": str})
        self._ours = ours.resolve()

    def of(self, path: Path) -> str:
        """The sha256 of a file's bytes, in hexadecimal.

        Raises:
            UserError: the file cannot be read
        """
        name = str(path.resolve())
        identity = _identity(path)
        known = self._known.values.get(name)
        if known and known["identity"] == identity:
            return known["sha256"]
        begun = time.time()
        found = sha256_of(path)
        settled = identity is not None and begun - identity[-1] / 1e9 > SETTLED
        if (settled or path.resolve().is_relative_to(self._ours)) and _identity(path) == identity:
            self._known.values[name] = {"identity": identity, "sha256": found}
        return found

    def save(self) -> None:
        """Keep the sums for the next run."""
        self._known.save()


def _identity(path: Path) -> list[int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
