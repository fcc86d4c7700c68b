"""Partial downloads: the bytes that have arrived stay on disk when a run is killed or a server sends other bytes."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.locks import lock

FOLDER = ".downloads"  # in the folder of the final files; nothing else there is ours


class Differs(Exception):
    """New bytes contradict those that arrived before."""


@dataclass
class Part:
    """The first bytes of a file. They are added to, never changed. Use through ``parts_of``.

    Attributes:
        path: where they are
        file: open for reading and appending, unbuffered
    """

    path: Path
    file: IO[bytes]

    @property
    def size(self) -> int:
        """Bytes that have arrived."""
        return os.fstat(self.file.fileno()).st_size

    def add(self, position: int, block: bytes) -> None:
        """Add the file's bytes from ``position`` (at most ``size``) on; where the file has bytes, they must be equal.

        Raises:
            Differs: they are not
            UserError: the disk is full, ...
        """
        with _writing(self.path):
            there = os.pread(self.file.fileno(), len(block), position)
            if not block.startswith(there):
                raise Differs
            rest = memoryview(block)[len(there) :]
            while rest:
                rest = rest[self.file.write(rest) :]

    def cut(self, size: int) -> None:
        """Forget what follows the first ``size`` bytes."""
        self.file.truncate(size)

    def become(self, whole: Path) -> None:
        """Take the final name."""
        with _writing(whole):
            os.fsync(self.file.fileno())
            os.replace(self.path, whole)


def present(whole: Path) -> int:
    """How many bytes of a file have arrived."""
    return max(path.stat().st_size if path.is_file() else 0 for path in _paths(whole))


@contextlib.contextmanager
def parts_of(whole: Path) -> Iterator[tuple[Part, Part]]:
    """Open two partial downloads of a file, the longer first: bytes that contradict the one may continue the other.

    They stay for the next run, unless they are empty. One run at a time has them.

    Raises:
        UserError: they cannot be written, or another run has them
    """
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(_opened(path)) for path in _paths(whole))
        yield (first, second) if first.size >= second.size else (second, first)


def _paths(whole: Path) -> tuple[Path, Path]:
    folder = whole.parent / FOLDER
    return folder / f"{whole.name}.1", folder / f"{whole.name}.2"


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Part]:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UserError(f"{path}: is not a regular file, as is to be written there: move it away")
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = Part(path, open(path, "a+b", buffering=0))  # noqa: SIM115 (closed below)
    with part.file:
        refusal = f"{path}: another run is downloading it: wait for it"
        lock(part.file, refusal)
        try:
            ours = os.path.samestat(os.stat(path), os.fstat(part.file.fileno()))
        except FileNotFoundError:
            ours = False
        if not ours:  # another run removed it at its end, after it was opened here
            raise UserError(refusal)
        try:
            yield part
        finally:
            with contextlib.suppress(OSError):
                if part.size == 0:
                    path.unlink()
                    path.parent.rmdir()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    # Errors of the network are OSErrors too: errors of writing must be told apart from them.
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error
