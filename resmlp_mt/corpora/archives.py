"""Members read straight from their archives, as streams: nothing is unpacked, so no member's name can be a path."""

import contextlib
import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from resmlp_mt.corpora.sources import aligned_lines
from resmlp_mt.errors import UserError

BUFFER = 1 << 17  # bytes


@contextlib.contextmanager
def opened_member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    """A file in a tar archive (plain, gzip, bzip2 or xz) as a stream; decompressed too if its name ends in ``.gz``.

    The archive's bytes are taken to be right: ``PublicFile`` checks them.

    Raises:
        UserError: the archive cannot be read, is none, or does not have the member; also while the stream is read
    """
    try:
        with tarfile.open(archive) as tar:
            for found in tar:
                if found.name.removeprefix("./") == member and (stream := tar.extractfile(found)):
                    raw = gzip.GzipFile(fileobj=stream) if member.endswith(".gz") else stream
                    with io.BufferedReader(cast(Any, raw), BUFFER) as file:
                        yield file
                    return
    except FileNotFoundError as error:
        raise UserError(f"{archive}: no such file") from error
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        reason = "it is none" if "\n" in str(error) else error  # tarfile lists all that it tried
        raise UserError(f"{archive}: cannot be read as a tar archive: {reason}: get it again") from error
    raise UserError(f"{archive}: has no {member}, or is cut off before it")


@dataclass(frozen=True)
class ArchivedText:
    """Two members of one tar archive, aligned line by line. A ``Source``.

    Attributes:
        name: see ``Source``
        archive: the file
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
        return (self.archive,)

    @property
    def options(self) -> dict[str, Any]:
        return {"members": self.members}

    def check(self) -> None:
        if not self.archive.is_file():
            raise UserError(f"{self.archive}: no such file")

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        # A tar archive is read from front to back: each side reads it on its own.
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(opened_member(self.archive, member)) for member in self.members]
            yield from cast(Iterator[tuple[bytes, bytes]], aligned_lines(streams, self.sides))
