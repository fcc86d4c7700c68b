"""A file that is still coming: what has come of it outlives the run that is killed."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from resmlp_mt.errors import UserError


@dataclass
class Part:
    """The first bytes of a file, beside its final name as ``NAME.part``. Use through ``Part.of``.

    Attributes:
        whole: the final name
        file: open for appending, unbuffered
    """

    whole: Path
    file: IO[bytes]

    @staticmethod
    def path_of(whole: Path) -> Path:
        """Where the first bytes of a file are."""
        return whole.with_name(f"{whole.name}.part")

    @classmethod
    @contextlib.contextmanager
    def of(cls, whole: Path) -> Iterator["Part"]:
        """Go on with what is there, or with nothing; for one run at a time.

        Raises:
            UserError: it cannot be written, or another run has it
        """
        path = cls.path_of(whole)
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = open(path, "ab", buffering=0)  # noqa: SIM115 (closed below)
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UserError(f"{path}: another run is downloading it: wait for it") from error
            part = cls(whole, file)
            try:
                yield part
            finally:
                if part.size == 0:
                    path.unlink(missing_ok=True)
                    part._version.unlink(missing_ok=True)

    @property
    def path(self) -> Path:
        return self.path_of(self.whole)

    @property
    def size(self) -> int:
        """Bytes that have come."""
        return self.file.seek(0, os.SEEK_END)

    @property
    def version(self) -> str:
        """What ``begin`` was told, if anything."""
        return self._version.read_text(encoding="latin-1") if self._version.exists() else ""

    @property
    def _version(self) -> Path:
        return self.whole.with_name(f"{self.whole.name}.part-version")

    def clear(self) -> None:
        """Forget all bytes."""
        self.file.truncate(0)

    def begin(self, version: str) -> None:
        """Say of which version of the file the bytes are that follow."""
        with _writing(self._version):
            self._version.write_text(version, encoding="latin-1")

    def append(self, block: bytes) -> None:
        """Add bytes.

        Raises:
            UserError: the disk is full, ...
        """
        rest = memoryview(block)
        with _writing(self.path):
            while rest:
                rest = rest[self.file.write(rest) :]

    def become_whole(self) -> None:
        """Take the final name."""
        with _writing(self.whole):
            os.fsync(self.file.fileno())
            os.replace(self.path, self.whole)
            self._version.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    # The network's errors are OSErrors too: those of writing must not be taken for them.
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error
