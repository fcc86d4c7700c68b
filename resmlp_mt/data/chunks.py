"""Some pairs of lines at a time: what a worker gets."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Pair = tuple[bytes, bytes]
CHUNK = 1000  # pairs sent to a worker at once
CHUNK_BYTES = 4 << 20  # fewer pairs are sent at once if their lines have more bytes than this


@dataclass(frozen=True)
class Chunk:
    """Some pairs of lines that follow each other.

    Attributes:
        first: the number of the first one in its source, counted from 1
        pairs: the lines, without line ends
    """

    first: int
    pairs: list[Pair]


def chunks(pairs: Iterable[Pair]) -> Iterator[Chunk]:
    """Yield the pairs of a stream, ``CHUNK`` of them at a time or ``CHUNK_BYTES``."""
    some: list[Pair] = []
    first, size = 1, 0
    for pair in pairs:
        some.append(pair)
        size += len(pair[0]) + len(pair[1])
        if len(some) == CHUNK or size >= CHUNK_BYTES:
            yield Chunk(first, some)
            first += len(some)
            some, size = [], 0
    if some:
        yield Chunk(first, some)
