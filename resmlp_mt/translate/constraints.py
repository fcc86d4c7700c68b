"""Constraints: words that translations must begin with, must contain or must not contain.

As in Post and Vilar 2018 ("Fast Lexically Constrained Decoding with Dynamic Beam Allocation"), beams that lack the same
number of forced tokens form a bank. The best of each bank are kept; all others compete by their scores. The beam is
wider by ``PLACES`` for each forced token: with nothing forced it is the plain search.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from functools import cache
from itertools import chain, combinations
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from resmlp_mt.text.subwords import WORD_START
from resmlp_mt.text.tokenizer import END, PAD, SPECIAL, UNKNOWN
from resmlp_mt.translate.words import within_word

PLACES = 2  # kept for each bank, and added to the beam for each forced token: 1 or 3 cost Multi30k 0.9 or 0.3 BLEU
MOST_MORE = 64  # places added to the beam; if they are too few, banks that lack fewer tokens come first
Forms = Sequence[Sequence[int]]  # of a constraint: token sequences; one of them must come out, in whole words


class Progress(NamedTuple):
    """How much of its demand a translation has met so far."""

    demand: "Demand"
    met: frozenset[int]  # the constraints with a form in the translation, after which another word begins
    begun: frozenset[tuple[int, tuple[int, ...]]]  # forms begun at its end: constraint, tokens to come
    missing: int  # how many forced tokens are still to come


class Demand:
    """What a sentence's translation must contain: the prefix, and one form of each constraint, in token numbers.

    A form that begins with ``</s>`` matches only at the start of the translation; each constraint has one without it.
    """

    def __init__(self, prefix: Sequence[int] = (), forced: Sequence[Forms] = ()):
        self.prefix, self.forced = prefix, forced
        self.tokens = {*prefix, *(token for forms in forced for form in forms for token in form)} - {END}
        self.used = torch.tensor(sorted(self.tokens), dtype=torch.long)
        self._shortest = [min(len(form) for form in forms if form[0] != END) for forms in forced]
        self.missing = sum(self._shortest)  # tokens, not counting forms for the start of the translation
        self.after = cache(self._after)
        self.start: Progress = self.after(Progress(self, frozenset(), frozenset(), 0), END, True)

    def _after(self, progress: Progress, token: int, word_begins: bool) -> Progress:
        """Return the progress after one more token; ``word_begins``: whether a word begins with it."""
        met = {number for number, rest in progress.begun if not rest and word_begins} | progress.met
        begun = {(number, rest[1:]) for number, rest in progress.begun if rest[:1] == (token,)}
        if word_begins:
            forms = [(number, tuple(form)) for number, forms in enumerate(self.forced) for form in forms]
            begun |= {(number, form[1:]) for number, form in forms if form[0] == token}
        missing = dict(enumerate(self._shortest))
        for number, rest in begun:
            missing[number] = min(missing[number], len(rest))
        left = sum(missing[number] for number in missing.keys() - met)
        return Progress(self, frozenset(met), frozenset(begun), left)


class TargetWords:
    """How target tokens form words, and which tokens would complete an avoided phrase (whole words, any subwords)."""

    def __init__(self, symbols: Sequence[str], subwords: str, avoided: Collection[str] = ()):
        if subwords == "bpe":
            texts = [symbol.removesuffix("@@") if symbol.endswith("@@") else f"{symbol} " for symbol in symbols]
        else:
            texts = [symbol.replace(WORD_START, " ") for symbol in symbols]
        self.texts = [" "] * len(SPECIAL) + [text or " " for text in texts[len(SPECIAL) :]]
        self.going_on = torch.tensor([number for number, text in enumerate(self.texts) if within_word(text[0])])
        self.longest = max(map(len, avoided), default=0)
        phrases = frozenset(avoided)
        self._never: list[int] = []  # the tokens that hold a whole phrase behind their first character
        # finishing[text]: the tokens that begin with this text, if a word may end right after it
        finishing: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(self.texts if avoided else ()):
            within = [True, *map(within_word, text), True]  # a word may go on at both ends of a token
            cuts = [cut for cut in range(len(text) + 1) if not (within[cut] and within[cut + 1])]
            for cut in cuts:
                finishing[text[:cut]].append(number)
            if any(text[start:end] in phrases for start, end in combinations(cuts, 2) if start > 0):
                self._never.append(number)
        # by (whether a phrase begins with a letter, its part that is there): the tokens that would complete it
        self._completing: dict[tuple[bool, str], list[int]] = defaultdict(list)
        last = max(map(len, finishing), default=0)  # characters: no token completes more of a phrase
        for phrase in avoided:
            for cut in range(max(0, len(phrase) - last), len(phrase) + 1):
                self._completing[within_word(phrase[0]), phrase[:cut]] += finishing.get(phrase[cut:], [])

    def begins(self, previous: int, token: int) -> bool:
        """Whether a word begins between two tokens."""
        return not (within_word(self.texts[previous][-1]) and within_word(self.texts[token][0]))

    def barred(self, tail: Sequence[int]) -> list[int]:
        """Return the tokens that must not follow ``tail``, the last ``longest`` + 1 tokens of a translation."""
        text = "".join(self.texts[number] for number in tail)
        starts = range(max(1, len(text) - self.longest), len(text) + 1)
        ways = ((within, start) for start in starts for within in {False, not within_word(text[start - 1])})
        completing = (self._completing.get((within, text[start:]), ()) for within, start in ways)
        return [*self._never, *chain.from_iterable(completing)]


class Constraints:
    """What the translations of a batch must contain and must not contain, and the progress of each beam.

    All B sentences must have the same number of forced tokens.
    """

    def __init__(self, demands: Sequence[Demand], words: TargetWords):
        self.words = words
        self.more_beams = min(PLACES * demands[0].missing, MOST_MORE)
        self._beams = [[demand.start] for demand in demands]  # B x K
        self._next = self._beams  # the best continuations, B x 2K

    def best(self, found: Tensor, tokens: Tensor, beam: int) -> tuple[Tensor, ...]:
        """Return the continuations that may be kept, B x 2K: totals, rows of ``found``, and symbols.

        Args:
            found: log-probabilities, BK x V; changed in place: tokens that must not follow get minus infinity
            tokens: the beams so far, BK x T
            beam: K from this step on
        """
        beams = [progress for row in self._beams for progress in row]
        self._bar(found, tokens, beams)
        used = pad_sequence([row[0].demand.used for row in self._beams], batch_first=True, padding_value=PAD)
        used = used.to(found.device).repeat_interleave(len(self._beams[0]), 0)
        others = found.scatter(1, used, -torch.inf).topk(min(2 * beam, found.size(1)), 1)
        totals = torch.cat([others.values, found.gather(1, used)], 1).tolist()
        symbols = torch.cat([others.indices, used], 1).tolist()
        possible: list[list[Continuation]] = [[] for _ in self._beams]  # of each sentence
        for row, (progress, previous) in enumerate(zip(beams, tokens[:, -1].tolist(), strict=True)):
            demand, sentence = progress.demand, row // len(self._beams[0])
            only = demand.prefix[tokens.size(1) - 1 :][:1]  # the next token of the prefix, if any is left
            for total, symbol in zip(totals[row], symbols[row], strict=True):
                if total > -torch.inf and (not only or symbol == only[0]):
                    known = symbol if symbol in demand.tokens else UNKNOWN
                    after = demand.after(progress, known, self.words.begins(previous, symbol))
                    possible[sentence].append(Continuation(total, row, symbol, after))
        best = [best_by_bank(each, beam) for each in possible]
        for kept in best:
            kept += [Continuation(-torch.inf, 0, PAD, beams[0])] * (2 * beam - len(kept))
        self._next = [[each.progress for each in kept] for kept in best]
        columns = ([[each[column] for each in kept] for kept in best] for column in range(3))
        return tuple(torch.tensor(column, device=found.device) for column in columns)

    def _bar(self, found: Tensor, tokens: Tensor, beams: Sequence[Progress]) -> None:
        """Set the scores of tokens that must not follow to minus infinity, in place."""
        too_short = [tokens.size(1) <= max(1, len(each.demand.prefix)) or each.missing > 0 for each in beams]
        found[:, PAD] = -torch.inf
        found[too_short, END] = -torch.inf
        behind = [row for row, each in enumerate(beams) if 0 < len(each.demand.prefix) == tokens.size(1) - 1]
        if behind and within_word(self.words.texts[beams[behind[0]].demand.prefix[-1]][-1]):  # the prefix is the same
            found[torch.tensor(behind).unsqueeze(1), self.words.going_on] = -torch.inf
        if self.words.longest:
            for row, tail in enumerate(tokens[:, -1 - self.words.longest :].tolist()):
                found[row, self.words.barred(tail)] = -torch.inf

    def follow(self, kept: Tensor, left: Tensor | None) -> None:
        """Go on with the continuations ``kept``, B' x K numbers below 2K, of the sentences ``left`` (None: all)."""
        rows = self._next if left is None else [self._next[number] for number in left.tolist()]
        self._beams = [[row[place] for place in places] for row, places in zip(rows, kept.tolist(), strict=True)]


class Continuation(NamedTuple):
    """A beam and a symbol that may follow it."""

    total: float
    row: int
    symbol: int
    progress: Progress


def best_by_bank(possible: Sequence[Continuation], beam: int) -> list[Continuation]:
    """Return the best 2K of a sentence's continuations: first ends, then the best of each bank, then the others.

    An end counts if fewer than K of its bank are better, ends included. Banks that lack fewer tokens come first.
    """
    ends: list[Continuation] = []
    first: list[Continuation] = []
    others: list[Continuation] = []
    better: Counter[int] = Counter()  # by bank: those that go on
    for each in sorted(possible, key=lambda each: -each.total):
        bank = each.progress.missing
        if each.symbol != END:
            (first if better[bank] < PLACES else others).append(each)
            better[bank] += 1
        elif better[bank] + len(ends) < beam:
            ends.append(each)
    first.sort(key=lambda each: each.progress.missing)
    return [*ends, *first, *others][: 2 * beam]
