"""Where pairs of raw lines come from: anything that yields them as a stream."""

import contextlib
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import LONGEST_SENTENCE, aligned, binary_lines, opened

BEGINNING = 1 << 16  # bytes that tell whether it is text
MOST_ZEROS = 0.05  # share of these bytes that may be zero; in UTF-16 about half of them are, in most alphabets
MOST_BROKEN = 0.3  # share that may be no UTF-8: a text in Latin-1 has few accents, other alphabets have such bytes only
_MARKS = {
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
}  # fmt: skip


class PairSource(Protocol):
    """A stream of aligned pairs of raw lines."""

    @property
    def name(self) -> str:
        """Short, for messages, progress and the summary: ``"europarl-v7"``."""

    @property
    def sides(self) -> tuple[str, str]:
        """What the source and the target side are called in messages: a path, or ``"archive.tgz:member"``."""

    @property
    def inputs(self) -> Sequence[Path]:
        """The files whose bytes decide the pairs."""

    @property
    def options(self) -> dict[str, Any]:
        """JSON values that decide the pairs too: names of members, and so on."""

    def check(self) -> None:
        """Look at the files' beginnings, before any work.

        Raises:
            UserError: a file is missing or cannot be read, or is no UTF-8 text
        """

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs in order, raw: whatever bytes a line holds, without the ``\\n`` that ends it.

        Raises:
            UserError: a side cannot be read, or is shorter than the other
        """


@dataclass(frozen=True)
class PlainText:
    """Two text files aligned line by line, gzipped if their names end in ``.gz``.

    Attributes:
        source, target: the files
        longest: bytes that a line may have
    """

    source: Path
    target: Path
    longest: int = field(default=LONGEST_SENTENCE, kw_only=True)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def sides(self) -> tuple[str, str]:
        return str(self.source), str(self.target)

    @property
    def inputs(self) -> Sequence[Path]:
        return self.source, self.target

    @property
    def options(self) -> dict[str, Any]:
        return {}

    def check(self) -> None:
        for path in self.inputs:
            check_text(path)
        if os.path.samefile(self.source, self.target):
            raise UserError(f"{self.source}: is given as source and as target: give the target's text")

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(opened(path)) for path in self.inputs]
            lines = [binary_lines(stream, side, self.longest) for stream, side in zip(streams, self.sides, strict=True)]
            yield from cast(Iterator[tuple[bytes, bytes]], aligned(lines, self.sides))


def check_text(path: Path) -> None:
    """See by a file's beginning that it is UTF-8 text, or nearly.

    Raises:
        UserError: it is missing, cannot be read, or is something else: UTF-16, compressed, ...
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(f"{path}: is not a regular file, but is read more than once: write it to one first")
    with opened(path) as stream:
        try:
            start = stream.read(BEGINNING)
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(f"{path}: cannot be read: {error}") from error
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            raise UserError(f"{path}: is {encoding}, not UTF-8: convert it: iconv -f {encoding} -t UTF-8")
    if start.startswith(b"\x1f\x8b"):
        raise UserError(f"{path}: is compressed by gzip: give it a name that ends in .gz, or decompress it")
    if (zeros := start.count(0)) > MOST_ZEROS * len(start):
        raise UserError(
            f"{path}: is no UTF-8 text ({zeros / len(start):.0%} of its bytes are zero): if it is UTF-16, convert it: "
            "iconv -f UTF-16LE -t UTF-8"
        )
    lost = len(start) - len(start.decode(errors="ignore").encode())
    if len(start) > 1000 and lost > MOST_BROKEN * len(start):
        raise UserError(
            f"{path}: is no UTF-8 text ({lost / len(start):.0%} of its bytes are not UTF-8): decompress it, or convert "
            "it from its encoding: iconv -f ENCODING -t UTF-8"
        )
