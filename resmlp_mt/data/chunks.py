"""The work on chunks of sentence pairs: tokenizing, splitting, counting."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike
from resmlp_mt.common.options import Checked, option
from resmlp_mt.common.workers import Chunk
from resmlp_mt.data.sources import Pair
from resmlp_mt.data.subwords import MOST_LETTERS, Subwords
from resmlp_mt.text.tokenizer import SPECIAL
from resmlp_mt.text.words import LONGEST_WORD, LineTokenizer, Words, check_words

# BPE is not learned from words that end with these. A merge could make them the last subword of a word: "@@" would then
# be read as the mark that the word continues, the others as fairseq's own symbols.
NOT_LAST = ("@@", *SPECIAL)


@dataclass(frozen=True)
class PairFilter(Checked):
    """Limits on a training pair. Validation and test pairs are never filtered. ``</s>`` is not counted."""

    max_length: int = option(250, "drop training pairs with more subwords on a side", least=1, most=10**6)
    max_ratio: float | None = option(
        None,
        "drop training pairs with one side that many times as long as the other, in subwords (default: none)",
        least=1,
        most=10**6,
    )

    def why_dropped(self, lengths: Iterable[int]) -> str | None:
        """Return ``"empty"``, ``"too long"`` or ``"ratio"``, or None: keep the pair; ``lengths`` are in subwords."""
        short, long = sorted(lengths)
        if short == 0:
            return "empty"
        if long > self.max_length:
            return "too long"
        return "ratio" if self.max_ratio is not None and long > self.max_ratio * short else None


@dataclass
class SideCounts:
    """The number of words and subwords on one side of a text; ``longest``: the subwords of its longest line."""

    words: int = 0
    subwords: int = 0
    longest: int = 0

    def add(self, other: "SideCounts") -> None:
        self.words += other.words
        self.subwords += other.subwords
        self.longest = max(self.longest, other.longest)


@dataclass
class ChunkResult:
    """The result for one chunk."""

    read: int  # pairs in the chunk
    texts: tuple[bytes, ...]  # UTF-8 text of each side, a line for each pair that is kept
    dropped: Counter[str]  # number of dropped pairs, by reason
    not_utf8: Sequence[int] = ()  # number of lines that are not UTF-8, on each side
    counts: tuple[SideCounts, ...] = ()  # of the kept text, for each side
    symbols: Counter[str] = field(default_factory=Counter)  # counts of the kept subwords, for a dictionary


class ChunkTokenizer:
    """Tokenizes both sides of chunks of raw pairs.

    ``names``: of the sides in error messages; each line must then be UTF-8 and have words. None: pairs that are not
    UTF-8 are dropped.
    """

    def __init__(self, langs: tuple[str, str], words: Words, names: tuple[str, str] | None = None):
        self._tokenize = tuple(LineTokenizer(lang, words) for lang in langs)
        self._names = names or ()

    def __call__(self, chunk: Chunk[Pair]) -> ChunkResult:
        pairs = [[self._words(side, line) for side, line in enumerate(pair)] for pair in chunk.lines]
        for number, pair in enumerate(pairs, start=chunk.first):
            for name, line in zip(self._names, pair, strict=False):
                if what := _trouble(line):
                    advice = "validation and test lines are never dropped: mend the line, or take it out of both sides"
                    raise UserError(f"{name}:{number}: {what}: {advice}")
        kept = [pair for pair in pairs if None not in pair]
        dropped = Counter((len(pairs) - len(kept)) * ["not UTF-8"])
        not_utf8 = [sum(pair[side] is None for pair in pairs) for side in (0, 1)]
        texts = tuple("".join(f"{pair[side]}\n" for pair in kept).encode() for side in (0, 1))
        return ChunkResult(len(pairs), texts, dropped, not_utf8)

    def _words(self, side: int, line: bytes) -> str | None:
        try:
            return self._tokenize[side](line.decode())
        except UnicodeDecodeError:
            return None


def _trouble(line: str | None) -> str | None:
    """Return why a line cannot be used in a validation or test set, or None if it can."""
    if line is None:
        return "not UTF-8 (iconv converts a file)"
    try:
        check_words(line)
    except ValueError as error:
        return str(error)
    return None if line.strip() else "no words"


class ChunkSplitter:
    """Splits both sides of chunks of tokenized pairs into subwords.

    ``pair_filter``: which pairs to keep, whose subwords are then counted; None: keep all, count no subwords.
    """

    def __init__(self, subwords: Subwords, learned: PathLike, pair_filter: PairFilter | None):
        self._split = subwords.load(learned)
        self._filter = pair_filter
        # A line with more characters has too many subwords in any case.
        longest = self._split.longest
        self._most = (longest + 1) * pair_filter.max_length if pair_filter and longest else sys.maxsize

    def __call__(self, chunk: Chunk[Pair]) -> ChunkResult:
        lines: tuple[list[str], list[str]] = ([], [])
        counts = SideCounts(), SideCounts()
        dropped: Counter[str] = Counter()
        for pair in chunk.lines:
            words = [line.decode() for line in pair]
            if self._filter and any(map(self._is_too_long, words)):
                dropped["too long" if all(words) else "empty"] += 1
                continue
            pieces = [self._split(line) for line in words]
            lengths = [len(split.split(" ")) if split else 0 for split in pieces]
            if self._filter and (reason := self._filter.why_dropped(lengths)):
                dropped[reason] += 1
                continue
            for side in (0, 1):
                lines[side].append(pieces[side])
                counts[side].add(SideCounts(len(words[side].split()), lengths[side], lengths[side]))
        texts = ["".join(f"{line}\n" for line in side) for side in lines]
        symbols = Counter(" ".join(texts).split()) if self._filter else Counter()
        if self._split.symbols is not None:
            symbols = Counter({symbol: count for symbol, count in symbols.items() if symbol in self._split.symbols})
        return ChunkResult(
            len(chunk.lines), tuple(text.encode() for text in texts), dropped, counts=counts, symbols=symbols
        )

    def _is_too_long(self, line: str) -> bool:
        """Return whether a training line is dropped without being split: a word of 1 MB would take long."""
        return len(line) > self._most or (len(line) > LONGEST_WORD and max(map(len, line.split())) > LONGEST_WORD)


class WordCounter:
    """Counts the words that BPE is learned from in chunks of tokenized pairs, on both sides together."""

    def __call__(self, chunk: Chunk[Pair]) -> tuple[int, Counter[str]]:
        """Return the number of pairs read, and how often each word occurs in them."""
        counts = Counter(b" ".join(line for pair in chunk.lines for line in pair).decode().split())
        for word in [word for word in counts if len(word) > MOST_LETTERS or word.endswith(NOT_LAST)]:
            del counts[word]
        return len(chunk.lines), counts
