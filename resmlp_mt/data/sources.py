"""Sources of raw sentence pairs, read as streams: files, or members of archives. Both have the same interface."""

import contextlib
import gzip
import io
import lzma
import os
import struct
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import LONGEST_SENTENCE, aligned, binary_lines, open_input

Pair = tuple[bytes, bytes]
BEGINNING = 1 << 16  # bytes at the start of a file that show whether it is text
COMPRESSED = {  # what the error message advises, and how such files begin
    "gzip: give it a name that ends in .gz, or": b"\x1f\x8b",
    **{"xz:": b"\xfd7zXZ", "bzip2:": b"BZh", "zstd:": b"\x28\xb5\x2f\xfd", "zip:": b"PK\3\4"},
}
MOST_ZEROS = 0.05  # share of these bytes that may be zero; in UTF-16, about half are zero in most alphabets


def _pairs(
    streams: Iterable[AbstractContextManager[IO[bytes]]], sides: tuple[str, str], longest: int
) -> Iterator[Pair]:
    with contextlib.ExitStack() as stack:
        opened = map(stack.enter_context, streams)
        lines = [binary_lines(stream, side, longest) for stream, side in zip(opened, sides, strict=True)]
        yield from cast(Iterator[Pair], aligned(lines, sides))


@dataclass(frozen=True)
class PlainText:
    """Two text files aligned line by line, gzipped if named ``.gz``; ``longest``: bytes that a line may have."""

    source: Path
    target: Path
    longest: int = field(default=LONGEST_SENTENCE, kw_only=True)

    @property
    def name(self) -> str:
        """Its name in progress lines and in the summary."""
        return self.source.name

    @property
    def sides(self) -> tuple[str, str]:
        """The names of the source and the target side in messages."""
        return str(self.source), str(self.target)

    @property
    def inputs(self) -> Sequence[Path]:
        """The files whose bytes decide the pairs."""
        return self.source, self.target

    @property
    def options(self) -> dict[str, Any]:
        """JSON values that decide the pairs, too."""
        return {}

    def check(self) -> None:
        """Check by their beginnings, before any work, that the files exist and are text."""
        for path in self.inputs:
            check_text(path)
        if os.path.samefile(self.source, self.target):
            raise UserError(f"{self.source}: is given as source and as target: give the target's text")

    def pairs(self) -> Iterator[Pair]:
        """Yield the pairs in order as raw bytes: each line as it is, without the ``\\n`` at its end."""
        return _pairs(map(open_input, self.inputs), self.sides, self.longest)


def check_text(path: Path) -> None:
    """Check that a file is regular and by its beginning text: not compressed, no UTF-16, no lines ended by CR alone."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(f"{path}: is not a regular file, but is read more than once: write it to one first")
    with open_input(path) as stream:
        try:
            start = stream.read(BEGINNING)
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(f"{path}: cannot be read: {error}") from error
    if kind := next((kind for kind, magic in COMPRESSED.items() if start.startswith(magic)), None):
        raise UserError(f"{path}: is compressed by {kind} decompress it")
    if b"\n" not in start and start.count(b"\r") > 1:
        raise UserError(f"{path}: its lines end with CR alone: convert them, such as by tr '\\r' '\\n'")
    if (zeros := start.count(0)) > MOST_ZEROS * len(start):
        raise UserError(
            f"{path}: is no UTF-8 text ({zeros / len(start):.0%} of its bytes are zero): if it is UTF-16, convert it: "
            "iconv -f UTF-16 -t UTF-8"
        )


BUFFER = 1 << 17  # bytes
# What reading a broken archive can raise: KeyError for links to nothing, RuntimeError for links to themselves.
BROKEN = (
    *(OSError, EOFError, ValueError, KeyError, RuntimeError),
    *(zlib.error, lzma.LZMAError, struct.error, tarfile.TarError),
)


@contextlib.contextmanager
def opened_member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    """Open a file in a tar archive (plain, gzip, bzip2 or xz), decompressed if its own name ends in ``.gz``."""
    try:
        with tarfile.open(archive) as tar:
            entry = next((entry for entry in tar if entry.name.removeprefix("./") == member), None)
            stream: Any = tar.extractfile(entry) if entry else None
            if stream is None:
                raise UserError(f"{archive}: has no {member}, or is cut off before it")
            yield io.BufferedReader(gzip.GzipFile(fileobj=stream) if member.endswith(".gz") else stream, BUFFER)
    except UserError:
        raise
    except BROKEN as error:
        reason = "it is none" if "\n" in str(error) else error  # tarfile lists on several lines which formats it tried
        raise UserError(f"{archive}: cannot be read as an archive: {reason}: get it again") from error


@dataclass(frozen=True)
class ArchivedText:
    """Two members of one archive, source and target language, aligned line by line."""

    name: str
    archive: Path
    members: tuple[str, str]

    @property
    def sides(self) -> tuple[str, str]:
        source, target = (f"{self.archive}:{member}" for member in self.members)
        return source, target

    @property
    def inputs(self) -> Sequence[Path]:
        return [self.archive]

    @property
    def options(self) -> dict[str, Any]:
        return {"members": self.members}

    def check(self) -> None:
        if not self.archive.is_file():
            raise UserError(f"{self.archive}: no such file")

    def pairs(self) -> Iterator[Pair]:
        # A tar archive is read from front to back: each side reads it on its own.
        return _pairs((opened_member(self.archive, each) for each in self.members), self.sides, LONGEST_SENTENCE)


PairSource = PlainText | ArchivedText
