"""From words to subwords, and which training pairs are kept."""

import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field

from resmlp_mt.data.chunks import Chunk
from resmlp_mt.data.filtering import PairFilter
from resmlp_mt.data.subwords import Subwords


@dataclass
class SideCounts:
    """What one side of a text holds, in words and in subwords; ``longest`` is a line's, in subwords."""

    words: int = 0
    subwords: int = 0
    longest: int = 0

    def add(self, other: "SideCounts") -> None:
        self.words += other.words
        self.subwords += other.subwords
        self.longest = max(self.longest, other.longest)


@dataclass
class Split:
    """What ``ChunkSplitter`` makes of a chunk.

    Attributes:
        read: pairs in the chunk
        texts: UTF-8 text of each side, a line for each pair that is left
        dropped: how many pairs are not, by reason
        counts: of each side of what is left
        symbols: how often each subword for a dictionary stands in what is left
    """

    read: int
    texts: tuple[bytes, ...]
    dropped: Counter[str]
    counts: tuple[SideCounts, ...]
    symbols: Counter[str] = field(default_factory=Counter)


class ChunkSplitter:
    """Splits both sides of chunks of tokenized pairs into subwords.

    Args:
        subwords: their kind
        learned: the content of the file of learned subwords
        pair_filter: which pairs to keep, and that their subwords are to be counted; None: all, without
    """

    def __init__(self, subwords: Subwords, learned: bytes, pair_filter: PairFilter | None):
        with tempfile.NamedTemporaryFile() as file:  # where it works may not see the folder
            file.write(learned)
            file.flush()
            self._split = subwords.load(file.name)
        self._filter = pair_filter
        # A line of more characters cannot be short enough in subwords. Some crawl's line of 10 MB without a space would
        # take an hour to be split, to no end.
        longest = self._split.longest
        self._most = (longest + 1) * pair_filter.max_length if pair_filter and longest else sys.maxsize

    def __call__(self, chunk: Chunk) -> Split:
        lines: tuple[list[str], list[str]] = ([], [])
        counts = SideCounts(), SideCounts()
        dropped: Counter[str] = Counter()
        for pair in chunk.pairs:
            words = [line.decode() for line in pair]
            pieces = ["" if len(line) > self._most else self._split(line) for line in words]
            lengths = [
                sys.maxsize if len(line) > self._most else _length(split)
                for line, split in zip(words, pieces, strict=True)
            ]
            reason = self._filter.why_dropped(lengths) if self._filter else None
            if reason:
                dropped[reason] += 1
                continue
            for side in (0, 1):
                lines[side].append(pieces[side])
                counts[side].add(SideCounts(len(words[side].split()), lengths[side], lengths[side]))
        texts = ["".join(f"{line}\n" for line in side) for side in lines]
        symbols = Counter(" ".join(texts).split()) if self._filter else Counter()
        if self._split.symbols is not None:
            symbols = Counter({symbol: count for symbol, count in symbols.items() if symbol in self._split.symbols})
        return Split(len(chunk.pairs), tuple(text.encode() for text in texts), dropped, counts, symbols)


def _length(line: str) -> int:
    # Subwords have single spaces between; Moses' words may have one at the end too.
    return line.count(" ") + 1 if line else 0
