"""Scores and alignments of subwords, turned into those of the words of running text, which white space separates."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, groupby

from resmlp_mt.text.subwords import WORD_START

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"  # letters of scripts without spaces
# Marks such as vowel signs, and joiners, are parts of words, but not of Python's \w. Ranges of them match faster.
_MARKS = (n for n in (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)) if unicodedata.category(chr(n))[0] == "M")
_RUNS = ([mark for _, mark in run] for _, run in groupby(enumerate(_MARKS), lambda each: each[1] - each[0]))
MARKS = "\u200c\u200d" + "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in _RUNS)
LETTER = re.compile(rf"[\w{MARKS}]")  # a letter, a mark or a digit
LETTERS = re.compile(rf"^{LETTER.pattern}+")  # at the beginning
IN_WORD = re.compile(rf"(?![{UNSPACED}])[\w{MARKS}-]")
AHEAD = 10  # characters of running text that may have no token, because preprocessing dropped them


@cache
def within_word(character: str) -> bool:
    """Whether a character is part of a word: between two of them the word goes on. A letter of UNSPACED is a word."""
    return IN_WORD.match(character) is not None


def word_numbers(pieces: Sequence[str], text: str, word: re.Pattern[str] = re.compile(r"\S+")) -> list[int]:
    """Return for each subword the number of its word in running text, counted from 0."""
    words = [each.start() for each in word.finditer(text)]
    return [max(0, bisect_right(words, start) - 1) for start in piece_starts(pieces, text)]


def piece_starts(pieces: Sequence[str], text: str) -> list[int]:
    """Return where each subword begins in running text.

    A token that is not in the text (a quote that was normalized) is placed after the token before it.
    """
    starts: list[int] = []
    at, guess, reach = 0, 0, AHEAD  # the ends of the last token that was found and of the last one, and how far to look
    for token in _tokens(pieces):
        spelled = "".join(token)
        first = text.find(spelled, at, at + len(spelled) + reach)
        # the "-" of "B-side" is no dash, but a word can be longer in the text than its subwords
        passed = "" if LETTER.match(spelled) else LETTERS.sub("", text[guess : max(0, first)])
        if first < 0 or LETTER.search(passed):
            first = guess + len(text[guess:]) - len(text[guess:].lstrip())
            reach += len(spelled)
        else:
            at, reach = first + len(spelled), AHEAD
        guess = first + len(spelled)
        starts += accumulate(map(len, token[:-1]), initial=first)
    return starts


def _tokens(pieces: Sequence[str]) -> list[list[str]]:
    """Return the subwords of each token, without the marks of subwords."""
    tokens: list[list[str]] = []
    is_sentencepiece = any(piece.startswith(WORD_START) for piece in pieces)
    goes_on = False
    for piece in pieces:
        if not tokens or (piece.startswith(WORD_START) if is_sentencepiece else not goes_on):
            tokens.append([])
        tokens[-1].append(piece.removesuffix("@@").replace(WORD_START, ""))
        goes_on = piece.endswith("@@")
    return tokens


def word_scores(text: str, numbers: Sequence[int], scores: Sequence[float]) -> list[tuple[str, float]]:
    """Return each word with its log-probability, the sum of those of its subwords."""
    words = text.split()
    sums = [0.0] * max(1, len(words))
    for number, score in zip(numbers, scores, strict=True):
        sums[number] += score
    return list(zip(words, sums, strict=False))  # there may be tokens, but no word


def word_alignment(
    alignment: Sequence[Sequence[float]],
    source: Sequence[int],
    target: Sequence[int],
    words: tuple[Sequence[str], Sequence[str]],
) -> list[list[float]]:
    """Turn an alignment of subwords into one of words: add a source word's columns, average a target word's rows.

    Args:
        alignment: T x S+1, as in ``Translation``
        source, target: the ``word_numbers`` of both sides, S and T
        words: both sides'; a target word without subwords (an entity) attends to source words with its first character
    """
    words_of_source, found = words
    width = len(words_of_source) + 1  # the last column is </s>
    rows = [width * [0.0] for _ in found]
    for number, like in enumerate(found):
        if number not in target and not like[0].isalnum():
            rows[number] = [float(like[0] in word) for word in words_of_source] + [0.0]
    for number, weights in zip(target, alignment, strict=True) if found else ():
        share = 1 / target.count(number)
        for column, weight in zip([*source, width - 1], weights, strict=True):
            rows[number][column] += share * weight
    return rows


def links(alignment: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Return ``(source, target)`` for each row whose largest weight is not that of ``</s>``, the last column.

    They link subwords if the alignment is a ``Translation``'s, and words if it comes from ``word_alignment``.
    """
    best = [max(range(len(row)), key=row.__getitem__) for row in alignment]
    return [(source, target) for target, source in enumerate(best) if source < len(alignment[target]) - 1]
