"""Raw pairs of lines to words."""

from collections import Counter
from dataclasses import dataclass

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.chunks import Chunk
from resmlp_mt.text.words import LONGEST_WORD, LineTokenizer, Words


@dataclass(frozen=True)
class Tokenized:
    """What ``ChunkTokenizer`` makes of a chunk.

    Attributes:
        read: pairs in the chunk
        texts: UTF-8 text of each side, a line for each pair that is left
        dropped: how many pairs are not, by reason
        not_utf8: lines of each side that are not UTF-8
    """

    read: int
    texts: tuple[bytes, bytes]
    dropped: Counter[str]
    not_utf8: tuple[int, int]


class ChunkTokenizer:
    """Tokenizes both sides of chunks of raw pairs.

    Args:
        langs: source and target language, two letters each
        words: how text becomes words
        names: what the sides are called in messages, if all of their lines must be UTF-8 and have words; if None, pairs
            that are not UTF-8 are dropped
    """

    def __init__(self, langs: tuple[str, str], words: Words, names: tuple[str, str] | None = None):
        self._tokenize = tuple(LineTokenizer(lang, words) for lang in langs)
        self._names = names

    def __call__(self, chunk: Chunk) -> Tokenized:
        """Tokenize.

        Raises:
            UserError: a line is not UTF-8, has no words or an endless one, where that must not be
        """
        lines: list[list[str]] = []
        not_utf8 = [0, 0]
        dropped: Counter[str] = Counter()
        for number, pair in enumerate(chunk.pairs, start=chunk.first):
            words = [self._words(side, line) for side, line in enumerate(pair)]
            if self._names:
                for name, line in zip(self._names, words, strict=True):
                    if what := _trouble(line):
                        mend = "convert the file (iconv)" if line is None else "mend the line"
                        raise UserError(
                            f"{name}:{number}: {what}: validation and test lines are never dropped: "
                            f"{mend}, or take it out of both sides"
                        )
            known = [line for line in words if line is not None]
            if len(known) == len(pair):
                lines.append(known)
            else:
                dropped["not UTF-8"] += 1
                for side, line in enumerate(words):
                    not_utf8[side] += line is None
        source, target = ("".join(f"{line[side]}\n" for line in lines).encode() for side in (0, 1))
        return Tokenized(len(chunk.pairs), (source, target), dropped, (not_utf8[0], not_utf8[1]))

    def _words(self, side: int, line: bytes) -> str | None:
        try:
            return self._tokenize[side](line.decode())
        except UnicodeDecodeError:
            return None


def _trouble(line: str | None) -> str | None:
    """Why a line cannot be used in a validation or test set."""
    if line is None:
        return "not UTF-8"
    longest = max(map(len, line.split()), default=0)
    if longest > LONGEST_WORD:
        return f"a word of {longest:,} letters"
    return None if longest else "no words"
