"""Which words of a translation go with which of the source's: what the model tells of subwords, made sure of words."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resmlp_mt.text.tokenizer import END, UNKNOWN

WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d]+(?:[-'’]\w+)*|[^\w\s]")
LONGEST_MATCHED = 1000  # letters in which changed subwords are looked for
LARGEST_RATIO = 15.0  # of probabilities, as a logarithm
UNSEEN = 0.01  # the least weight of a pair of words
JUMP, ANY_JUMP = 1.0, 0.1  # how fast chances fall with the distance from the next word, and the least


@torch.inference_mode()
def omission(model: Any, source: Sequence[int], tokens: Sequence[int], batch_tokens: int) -> Tensor:
    """T+1 x S+1, as the attention of a ``Hypothesis``: how much likelier a token is with each of the source's.

    The ratio of the probabilities with it and with <unk> in its place, less 1 (Li et al. 2019, "On the word alignment
    from neural machine translation", compare differences).
    """
    device = next(model.parameters()).device
    rows = torch.tensor(source, device=device).repeat(len(source), 1)
    rows.fill_diagonal_(UNKNOWN)
    rows[-1] = torch.tensor(source)  # </s> stays: this is the whole sentence
    target = torch.tensor([*tokens, END], device=device)
    previous = torch.tensor([END, *tokens], device=device)
    scores = torch.cat(
        [
            model(part, previous.expand(len(part), -1)).log_softmax(-1)[:, range(len(target)), target]
            for part in rows.split(max(1, batch_tokens // max(len(source), len(target))))
        ]
    )
    gains = (scores[-1:] - scores).clamp(0, LARGEST_RATIO).expm1().T
    gains[:, :-1] += 1e-3
    return (gains / gains.sum(1, keepdim=True)).cpu()


def attended(source: str, target: str, translation: Any) -> np.ndarray:
    """U x C+1: for each word of a translation, how surely it goes with the first c of the source's C letters."""
    words, others = _words(source), _words(target)
    place, other = (np.arange(len(each)) / max(1, len(each)) for each in (words, others))
    seen = np.exp(-len(words) * abs(place[None, :] - other[:, None]))  # all that is known where there is no alignment
    if translation.alignment:
        seen[:] = UNSEEN
        of_pieces = np.array(translation.alignment)[:, :-1]
        of_pieces /= np.maximum(of_pieces.sum(1, keepdims=True), 1e-9)
        sources = _overlaps(words, piece_ends(translation.source_tokens, letters_of(source)))
        seen += _overlaps(others, piece_ends(translation.tokens, letters_of(target))) @ of_pieces @ sources.T
    texts, other_texts = ([text for text, _, _ in each] for each in (words, others))
    for number, text in enumerate(other_texts):
        if not text.isalpha() and texts.count(text) == other_texts.count(text):  # a number, or punctuation
            same = [each for each, word in enumerate(texts) if word == text]
            seen[number] = UNSEEN
            seen[number, same[other_texts[:number].count(text)]] = 1
    sure = in_order(seen)
    shares = np.zeros((len(others), len(letters_of(source)) + 1))
    for number, (_, start, end) in enumerate(words):
        shares[:, start + 1 : end + 1] = sure[:, number : number + 1] / (end - start)
    return shares.cumsum(1)


def in_order(seen: np.ndarray) -> np.ndarray:
    """U x W: which of W words each of U words goes with, where neighbours mostly go with neighbours.

    This is the posterior of a hidden Markov model (Vogel et al. 1996), with the weights U x W for what is seen.
    """
    numbers = np.arange(seen.shape[1])
    moves = np.exp(-JUMP * abs(numbers[None, :] - numbers[:, None] - 1)) + ANY_JUMP
    moves /= moves.sum(1, keepdims=True)
    forth, back = seen.copy(), np.ones_like(seen)
    for number in range(len(seen)):
        if number:
            forth[number] *= forth[number - 1] @ moves
        forth[number] /= forth[number].sum()
    for number in range(len(seen) - 2, -1, -1):
        back[number] = moves @ (seen[number + 1] * back[number + 1])
        back[number] /= back[number].sum()
    sure = forth * back
    return sure / sure.sum(1, keepdims=True)


def letters_of(text: str) -> str:
    """A text without white space."""
    return "".join(text.split())


def piece_ends(pieces: Sequence[str], letters: str) -> list[int]:
    """Where each subword ends in the letters of a text, 0 first; what makes words of text changes a few of them."""
    plain = [piece.removesuffix("@@").replace("\u2581", "") for piece in pieces]
    ends = list(accumulate(map(len, plain), initial=0))
    together = "".join(plain)
    if together == letters:
        return ends
    where = [round(place * len(letters) / max(1, len(together))) for place in range(len(together) + 1)]
    if len(together) <= LONGEST_MATCHED:
        for _, start, end, other, other_end in SequenceMatcher(None, together, letters, False).get_opcodes():
            for place in range(start, end + 1):
                where[place] = min(other + place - start, other_end)
    where[-1] = len(letters)
    return [where[end] for end in ends]


def _words(text: str) -> list[tuple[str, int, int]]:
    """Words, and their first letters and those behind their last."""
    ends = list(accumulate((not character.isspace() for character in text), initial=0))
    return [(each.group(), ends[each.start()], ends[each.end()]) for each in WORD.finditer(text)]


def _overlaps(words: Sequence[tuple[str, int, int]], ends: Sequence[int]) -> np.ndarray:
    """The share of each piece that is in each word: words x pieces."""
    first, last = np.array(ends[:-1]), np.array(ends[1:])
    starts, stops = (np.array([word[side] for word in words])[:, None] for side in (1, 2))
    both = np.maximum(0, np.minimum(last, stops) - np.maximum(first, starts))
    return both / np.maximum(1, last - first)
