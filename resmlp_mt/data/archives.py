"""Members read straight from their archives, as streams: nothing is unpacked, so no member's name can be a path."""

import contextlib
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import aligned, binary_lines
from resmlp_mt.data.sources import check_text

BUFFER = 1 << 17  # bytes
# What reading a broken archive can raise: KeyError for links to nothing, RuntimeError for links to themselves, for a
# password and for unknown compression.
BROKEN = (
    *(OSError, EOFError, ValueError, KeyError, RuntimeError),
    *(zlib.error, lzma.LZMAError, struct.error, tarfile.TarError, zipfile.BadZipFile),
)


@contextlib.contextmanager
def opened_member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    """A file in an archive as a stream; decompressed too if its name ends in ``.gz``.

    Args:
        archive: tar (plain, gzip, bzip2 or xz), ``.zip``, or the folder that one was unpacked into
        member: its name in the archive

    Raises:
        UserError: the archive cannot be read, is none, or does not have the member; also while the stream is read
    """
    with contextlib.ExitStack() as stack:
        with _reading(archive):
            stream = stack.enter_context(_found(archive, member))
        yield stack.enter_context(io.BufferedReader(_Checked(archive, stream), BUFFER))


def unpacked(folder: Path, member: str) -> Path | None:
    """The file that a member has become in a folder, if it is there; one of ``.gz`` may be decompressed, too."""
    names = (member, member.removesuffix(".gz"))
    return next((folder / name for name in names if (folder / name).is_file()), None)


def files_of(archive: Path, members: Sequence[str]) -> list[Path]:
    """The files that have the members of an archive: itself, or what it was unpacked into."""
    return [unpacked(archive, member) or archive / member for member in members] if archive.is_dir() else [archive]


@contextlib.contextmanager
def _found(archive: Path, member: str) -> Iterator[IO[bytes]]:
    with contextlib.ExitStack() as stack:
        name, stream = member, cast(IO[bytes] | None, None)
        if archive.is_dir():
            if path := unpacked(archive, member):
                name, stream = path.name, stack.enter_context(open(path, "rb"))
        elif archive.suffix == ".zip":
            zipped = stack.enter_context(zipfile.ZipFile(archive))
            if member in zipped.namelist():
                stream = stack.enter_context(zipped.open(member))
        else:
            tar = stack.enter_context(tarfile.open(archive))
            entry = next((entry for entry in tar if entry.name.removeprefix("./") == member), None)
            stream = tar.extractfile(entry) if entry else None
        if stream is None:
            raise UserError(f"{archive}: has no {member}, or is cut off before it")
        yield cast(IO[bytes], gzip.GzipFile(fileobj=stream)) if name.endswith(".gz") else stream


class _Checked(io.RawIOBase):
    """A stream whose every failure is a ``UserError``."""

    def __init__(self, archive: Path, stream: IO[bytes]):
        self._archive, self._stream = archive, cast(Any, stream)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _reading(self._archive):
            return self._stream.readinto(buffer)


@contextlib.contextmanager
def _reading(archive: Path) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError as error:
        raise UserError(f"{archive}: no such file") from error
    except BROKEN as error:
        reason = "it is none" if "\n" in str(error) else error  # tarfile tells on several lines which formats it tried
        raise UserError(f"{archive}: cannot be read as an archive: {reason}: get it again") from error


@dataclass(frozen=True)
class ArchivedText:
    """Two members of one archive, aligned line by line. A ``PairSource``.

    Attributes:
        name: see ``PairSource``
        archive: the file, or the folder that it was unpacked into
        members: of the source and the target language
    """

    name: str
    archive: Path
    members: tuple[str, str]

    @property
    def sides(self) -> tuple[str, str]:
        source, target = (f"{self.archive}:{member}" for member in self.members)
        return source, target

    @property
    def inputs(self) -> Sequence[Path]:
        return files_of(self.archive, self.members)

    @property
    def options(self) -> dict[str, Any]:
        return {"members": self.members}

    def check(self) -> None:
        for path in self.inputs:
            if self.archive.is_dir():
                check_text(path)
            elif not path.is_file():
                raise UserError(f"{path}: no such file")

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        # A tar archive is read from front to back: each side reads it on its own.
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(opened_member(self.archive, member)) for member in self.members]
            lines = [binary_lines(stream, side) for stream, side in zip(streams, self.sides, strict=True)]
            yield from cast(Iterator[tuple[bytes, bytes]], aligned(lines, self.sides))
