"""What is known of a translation's subwords, said of the words of its running text: those between white space."""

import re
from bisect import bisect_right
from collections.abc import Sequence

from resmlp_mt.text.subwords import WORD_START, joined

AHEAD = 10  # characters of running text that may have no token: what treating the text has dropped


def word_numbers(pieces: Sequence[str], text: str, subwords: str) -> list[int]:
    """Of each subword the word of ``text.split()`` in which it stands, counted from 0."""
    words = [word.start() for word in re.finditer(r"\S+", text)]
    return [max(0, bisect_right(words, start) - 1) for start in token_starts(pieces, text, subwords)]


def token_starts(pieces: Sequence[str], text: str, subwords: str) -> list[int]:
    """Of each subword where its token begins in running text.

    A token that the text does not have (a quote that was made plain) stands behind the token before it.
    """
    starts: list[int] = []
    at, guess, reach = 0, 0, AHEAD
    for token in _tokens(pieces, subwords):
        spelled = joined(" ".join(token), subwords)
        found = text.find(spelled, at, at + len(spelled) + reach)
        if found < 0:
            first = guess + len(text[guess:]) - len(text[guess:].lstrip())
            guess, reach = first + len(spelled), reach + len(spelled)
        else:
            first, at, reach = found, found + len(spelled), AHEAD
            guess = at
        starts += len(token) * [first]
    return starts


def _tokens(pieces: Sequence[str], subwords: str) -> list[list[str]]:
    """The subwords of each token, as the tokenizer had them."""
    tokens: list[list[str]] = []
    whole = True
    for piece in pieces:
        if whole if subwords == "bpe" else not tokens or piece.startswith(WORD_START):
            tokens.append([])
        tokens[-1].append(piece)
        whole = not piece.endswith("@@")
    return tokens


def word_scores(text: str, numbers: Sequence[int], scores: Sequence[float]) -> list[tuple[str, float]]:
    """Each word with its log-probability, the sum of those of its subwords."""
    words = text.split()
    sums = [0.0] * max(1, len(words))
    for number, score in zip(numbers, scores, strict=True):
        sums[number] += score
    return list(zip(words, sums, strict=False))  # no word: no running text comes of the tokens


def word_alignment(
    alignment: Sequence[Sequence[float]], source: Sequence[int], target: Sequence[int], texts: tuple[str, str]
) -> list[list[float]]:
    """An alignment of subwords made one of words: the weights of a word's subwords are added, of its rows the mean.

    Args:
        alignment: T x S+1, as that of ``Translation``
        source, target: the ``word_numbers`` of both sides, S and T
        texts: both; a word that has no subword (an entity that was kept) attends to its like
    """
    words, found = (text.split() for text in texts)
    width = len(words) + 1  # the last column is </s>
    rows = [
        [float(number not in target and like[0] in word) for word in words] + [0.0] for number, like in enumerate(found)
    ]
    for number, weights in zip(target, alignment, strict=True):
        share = 1 / target.count(number) if found else 0.0
        for column, weight in zip([*source, width - 1], weights, strict=True):
            rows[number][column] += share * weight
    return rows


def links(alignment: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """``(source, target)`` of each row that attends most to a column of the source, and not to ``</s>``, the last.

    Of subwords where the alignment is a ``Translation``'s, of words where it comes from ``word_alignment``.
    """
    best = [max(range(len(row)), key=row.__getitem__) for row in alignment]
    return [(source, target) for target, source in enumerate(best) if source < len(alignment[target]) - 1]
