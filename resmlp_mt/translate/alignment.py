"""Word alignment, made from the alignment of subwords and smoothed over neighbouring words."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resmlp_mt.text.tokenizer import END, UNKNOWN
from resmlp_mt.translate.entities import ENTITY, FIRST
from resmlp_mt.translate.words import LETTER, MARKS, word_alignment, word_numbers

WORD = re.compile(
    rf"{ENTITY.pattern}|\d+(?:[.,:]\d+)*|(?:(?!\d){LETTER.pattern})+(?:[-'’]{LETTER.pattern}+)*|[^\w\s][{MARKS}]*",
    re.VERBOSE,
)
LARGEST_RATIO = 15.0  # natural logarithm of the largest ratio of probabilities that counts
UNSEEN = 0.01  # the least weight of a pair of words
JUMP, ANY_JUMP = 1.0, 0.1  # how fast a jump's weight falls with its distance from the next word; the least weight


@torch.inference_mode()
def omission(model: Any, source: Sequence[int], tokens: Sequence[int], batch_tokens: int) -> Tensor:
    """Return how much likelier each token is with each source token: T+1 x S+1, as the attention of a ``Hypothesis``.

    A weight is the ratio of the probabilities with it and with <unk> in its place, minus 1, scaled to a row sum of 1.
    (Li et al. 2019, "On the word alignment from neural machine translation", compare differences.)
    """
    device = next(model.parameters()).device
    rows = torch.tensor(source, device=device).repeat(len(source), 1)
    rows.fill_diagonal_(UNKNOWN)
    rows[-1] = torch.tensor(source)  # </s> is not replaced: the last row is the whole sentence
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


def character_alignment(source: str, translation: Any) -> np.ndarray:
    """Return the probability that each of U translated words goes with the first c of C source characters, U x C+1."""
    words, others = WORD.findall(source), WORD.findall(translation.text)
    place, other = (np.arange(len(each)) / max(1, len(each)) for each in (words, others))
    seen = np.exp(-len(words) * abs(place[None, :] - other[:, None]))  # without an alignment, by position
    if translation.alignment and others:
        # entities have no tokens: as one character each, they do not hide the tokens after them from piece_starts
        short = [ENTITY.sub(chr(FIRST), text) for text in (source, translation.text)]
        numbers = word_numbers(translation.source_tokens, short[0], WORD)
        other_numbers = word_numbers(translation.tokens, short[1], WORD)
        rows = np.array(word_alignment(translation.alignment, numbers, other_numbers, (words, others)))[:, :-1]
        seen = UNSEEN + rows / np.maximum(rows.sum(1, keepdims=True), 1e-9)
    for number, word in enumerate(others):
        if not word.isalpha() and words.count(word) == others.count(word):  # a number, punctuation or an entity
            same = [each for each, one in enumerate(words) if one == word]
            seen[number] = UNSEEN
            seen[number, same[others[:number].count(word)]] = 1
    sure = smoothed(seen)
    shares = np.zeros((len(others), len(source) + 1))
    for number, found in enumerate(WORD.finditer(source)):
        shares[:, found.start() + 1 : found.end() + 1] = sure[:, number : number + 1] / len(found[0])
    return shares.cumsum(1)


def smoothed(seen: np.ndarray) -> np.ndarray:
    """Return how likely each of U words goes with each of W words, U x W; neighbours mostly go with neighbours.

    This is the posterior of a hidden Markov model (Vogel et al. 1996); ``seen``, U x W, has its emission weights.
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
