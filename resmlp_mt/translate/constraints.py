"""What translations must begin with, must hold and must not hold: beams are kept for the tokens still missing.

As in Post and Vilar 2018 ("Fast Lexically Constrained Decoding with Dynamic Beam Allocation"), beams compete with those
to which as many forced tokens are missing. The best of each such bank are kept, all others compete by their scores, in
a beam that is wider by some places for each forced token: with nothing forced it is the plain search.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, read_lines
from resmlp_mt.text.subwords import WORD_START, joined
from resmlp_mt.text.tokenizer import END, PAD, SPECIAL, UNKNOWN, Tokenizer

LETTER = re.compile(r"[\w-]")  # a character within a word; a word begins and ends beside another one
WORD = re.compile(r"[\w-]+|[^\w\s]")  # of a source text
SENTENCE_ENDS = frozenset('.!?…:;"')  # behind which a word may have a capital letter of no meaning
PLACES = 2  # of each bank, and for each forced token in the beam: with 1 or 3 Multi30k had 0.9 and 0.3 BLEU less
MOST_MORE = 64  # places; then those come first to which least is missing
NEVER = 1 << 20  # tokens: more than any translation has
Forms = Sequence[Sequence[int]]  # of a constraint: token sequences of which one must come out, in whole words


class Demand(NamedTuple):
    """What a sentence's translation must hold, in token numbers."""

    prefix: Sequence[int] = ()  # with which it begins
    forced: Sequence[Forms] = ()  # a form that begins with ``</s>`` stands only at the very beginning, beside another

    @property
    def missing(self) -> int:
        """How many tokens are forced."""
        return sum(min(len(form) for form in forms if form[0] != END) for forms in self.forced)

    @property
    def tokens(self) -> set[int]:
        """All that may be forced."""
        return {*self.prefix, *(token for forms in self.forced for form in forms for token in form)}


class Spelling:
    """How the target tokens are written, and so which of them, side by side, are parts of one word."""

    def __init__(self, symbols: Sequence[str], subwords: str):
        if subwords == "bpe":
            texts = [symbol.removesuffix("@@") if symbol.endswith("@@") else f"{symbol} " for symbol in symbols]
        else:
            texts = [symbol.replace(WORD_START, " ") for symbol in symbols]
        self.texts = [" ", " ", " ", " ", *(text or " " for text in texts[len(SPECIAL) :])]
        self.open = torch.tensor([LETTER.match(text[-1]) is not None for text in self.texts])
        self.joins = torch.tensor([LETTER.match(text[0]) is not None for text in self.texts])


class Avoided:
    """Phrases that must not come out as whole words, in whichever subwords."""

    def __init__(self, phrases: Iterable[str], spelling: Spelling):
        self.phrases, self._texts = frozenset(phrases), spelling.texts
        self.longest = max(map(len, self.phrases), default=0)
        # by a text, the tokens that begin with it and end a word there; what follows a token may go on with its word
        finishing: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(self._texts if self.phrases else ()):
            letters = [LETTER.match(character) is not None for character in f"{text}x"]
            for cut in range(1, len(letters)):
                if not (letters[cut - 1] and letters[cut]):
                    finishing[text[:cut]].append(number)
        # by what is there of a phrase, the tokens that would complete it
        self._barred: dict[str, list[int]] = defaultdict(list)
        for phrase in self.phrases:
            for cut in range(len(phrase)):
                self._barred[phrase[:cut]] += finishing.get(phrase[cut:], [])

    def within(self, words: str) -> str | None:
        """One of the phrases that a text holds."""
        bounded = (phrase for phrase in self.phrases if phrase in words)
        return next((one for one in bounded if re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", words)), None)

    def barred(self, tail: Sequence[int]) -> tuple[list[int], bool]:
        """The tokens that must not follow the last ones of a translation; and whether none may that begins a word."""
        text = "".join(self._texts[number] for number in tail)
        barred: list[int] = []
        full = False
        for start in range(max(1, len(text) - self.longest), len(text) + 1):
            if not LETTER.match(text[start - 1]):
                barred += self._barred.get(text[start:], [])
                full = full or text[start:] in self.phrases
        return barred, full


class Constraints:
    """What the translations of a batch must hold, and how much of it each beam has.

    B sentences with K beams and equally many forced tokens; each has at most F forms of L tokens, of C constraints.
    """

    def __init__(self, demands: Sequence[Demand], spelling: Spelling, avoided: Avoided, device: Any = "cpu"):
        self.vocabulary = len(spelling.texts)
        self._open, self._joins = spelling.open.to(device), spelling.joins.to(device)
        self._avoided = avoided
        self.missing = demands[0].missing
        self.more_beams = min(PLACES * self.missing, MOST_MORE)
        forms = [[list(form) for each in demand.forced for form in each] for demand in demands]
        owners = [[n for n, each in enumerate(demand.forced) for _ in each] for demand in demands]
        self.constraints = max(len(demand.forced) for demand in demands)
        used = [sorted({token for form in each for token in form} - {END}) for each in forms]
        self._prefix = padded([list(demand.prefix) for demand in demands], -1).to(device)  # B x P
        self._used = padded(used, PAD).to(device)  # the tokens of forms, B x U
        width, longest = max(map(len, forms)), max((len(form) for each in forms for form in each), default=0)
        rows = [[*each, *[[]] * (width - len(each))] for each in forms]
        flat = torch.tensor([[form + [-1] * (longest + 1 - len(form)) for form in each] for each in rows])
        self._forms = flat.view(len(demands), width, longest + 1).long().to(device)
        self._lengths = self._forms.ge(0).sum(2)  # B x F
        self._owners = padded(owners, self.constraints).to(device)  # B x F; of padding: one constraint more
        # of each beam: how many tokens of each form it ends in, B x K x F, the constraints that it has, B x K x C, and
        # how many tokens are missing, B x K
        self._at_start = self._forms[:, None, :, 0].eq(END)
        progress, nothing = self._at_start.long(), torch.zeros(len(demands), 1, self.constraints, dtype=torch.bool)
        self._next = self._state = progress, nothing.to(device), self._left(progress).sum(2)

    def check_room(self, longest: Tensor) -> None:
        """Refuse sentences whose translations may not have as many tokens (``longest``, B) as they need."""
        needed = self._prefix.ge(0).sum(1) + self.missing
        if (needed > longest).any():
            worst = int((needed - longest).argmax())
            told = f"take {int(needed[worst])} tokens, but a translation has at most {int(longest[worst])}"
            raise UserError(f"prefix and glossary: {told}: shorten them, or raise max_len_b")

    def _left(self, progress: Tensor) -> Tensor:
        """Of each constraint the tokens missing to its nearest form, ``B x N x F -> B x N x C``."""
        left = (self._lengths.unsqueeze(1) - progress).masked_fill(self._at_start & progress.eq(0), NEVER)
        owners = self._owners.unsqueeze(1).expand_as(left)
        found = left.new_zeros(*left.shape[:2], self.constraints + 1)
        return found.scatter_reduce(2, owners, left, "amin", include_self=False)[..., : self.constraints]

    def bar(self, found: Tensor, tokens: Tensor) -> None:
        """Give what must not follow the beams so far (BK x T) the score minus infinity, in ``found``, BK x V."""
        step, beams = tokens.size(1) - 1, len(tokens) // len(self._prefix)
        found[:, PAD] = -torch.inf
        if step == 0:
            found[:, END] = -torch.inf
        if step < self._prefix.size(1):
            only = self._prefix[:, step].repeat_interleave(beams).unsqueeze(1)
            others = torch.arange(found.size(1), device=found.device) != only
            found.masked_fill_(others & only.ge(0), -torch.inf)
        if self._avoided.phrases:
            tails = tokens[:, -1 - self._avoided.longest :].tolist()
            for row, (barred, full) in enumerate(map(self._avoided.barred, tails)):
                found[row, barred] = -torch.inf
                if full:
                    found[row, ~self._joins] = -torch.inf
        found[:, END].masked_fill_(self._state[2].flatten() > 0, -torch.inf)

    def candidates(self, found: Tensor, tokens: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The continuations that may be kept, B x 2K: totals, beams, symbols, and whether they end.

        Args:
            found: log-probabilities, BK x V, of which ``bar`` has been
            tokens: the beams so far, BK x T
            beam: K from this step on
        """
        sentences = len(self._prefix)
        beams = len(found) // sentences
        used = self._used.repeat_interleave(beams, 0)
        forced = found.gather(1, used)
        best = found.scatter(1, used, -torch.inf).topk(min(2 * beam, found.size(1)), 1)
        totals = torch.cat([best.values, forced], 1).view(sentences, -1)
        symbols = torch.cat([best.indices, used], 1).view(sentences, -1)
        rows = torch.arange(beams, device=found.device).repeat_interleave(totals.size(1) // beams)
        previous = tokens[:, -1].view(sentences, beams)[:, rows]
        progress, met, left = self._advanced(rows, previous, symbols)

        # in each bank, how many that go on are better: the best ones are kept, and ends are possible among the best K
        totals, order = totals.sort(dim=1, descending=True, stable=True)
        symbols, left, rows = symbols.gather(1, order), left.gather(1, order), rows[order]
        possible, ends = totals.isfinite(), symbols.eq(END)
        banks = left.unsqueeze(2) == torch.arange(self.missing + 1, device=left.device)
        going_on = banks & (possible & ~ends).unsqueeze(2)
        better = (going_on.cumsum(1) - going_on.long()).gather(2, left.unsqueeze(2)).squeeze(2)
        ends = ends & possible & (better < beam)
        # ends come first, then the best of each bank, those before to which least is missing
        first = torch.where(possible & better.lt(PLACES), left, self.missing + 1)
        first = first.masked_fill(symbols.eq(END), self.missing + 2).masked_fill(ends, -1)
        chosen = first.sort(dim=1, stable=True).indices[:, : 2 * beam]
        totals = totals.masked_fill(symbols.eq(END) & ~ends, -torch.inf)
        source = order.gather(1, chosen)
        self._next = taken(progress, source), taken(met, source), left.gather(1, chosen)
        return totals.gather(1, chosen), rows.gather(1, chosen), symbols.gather(1, chosen), ends.gather(1, chosen)

    def _advanced(self, rows: Tensor, previous: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The state of N continuations a sentence: their beams, N; those beams' last tokens and their own, B x N."""
        progress, met = self._state[0][:, rows], self._state[1][:, rows]
        boundary = ~(self._open[previous] & self._joins[symbols]).unsqueeze(2)
        met = met | (self._left(progress).eq(0) & boundary)
        forms, symbols = self._forms.unsqueeze(1).expand(-1, len(rows), -1, -1), symbols.unsqueeze(2)
        following = forms.gather(3, progress.unsqueeze(3)).squeeze(3).eq(symbols) & (progress.gt(0) | boundary)
        again = (forms[..., 0].eq(symbols) & boundary).long()
        progress = torch.where(following, progress + 1, again)
        return progress, met, self._left(progress).masked_fill(met, 0).sum(2)

    def follow(self, kept: Tensor, left: Tensor | None) -> None:
        """Go on with the continuations ``kept``, B' x K numbers below 2K, of the sentences ``left`` (None: all)."""
        progress, met, missing = self._next if left is None else (each[left] for each in self._next)
        self._state = taken(progress, kept), taken(met, kept), missing.gather(1, kept)
        if left is not None:
            self._prefix, self._used, self._forms, self._lengths, self._owners, self._at_start = (
                each[left]
                for each in (self._prefix, self._used, self._forms, self._lengths, self._owners, self._at_start)
            )


def taken(x: Tensor, places: Tensor) -> Tensor:
    """Those of ``places`` (B x M) of each sentence, ``B x N x F -> B x M x F``."""
    return x.gather(1, places.unsqueeze(2).expand(-1, -1, x.size(2)))


def padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Rows of whole numbers, the shorter ones with ``value`` behind."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows], dtype=torch.long)


@dataclass(frozen=True)
class Rules:
    """What a user wants of all translations, in a model's tokens."""

    prefix: list[int]
    terms: Mapping[tuple[str, ...], Forms]  # by the words of a source term
    avoided: Avoided
    spelling: Spelling

    def demand(self, source: str, first: bool, forced: Sequence[Forms]) -> Demand | None:
        """That of a sentence: its words with spaces between; ``first`` of its text; what is forced besides.

        None: a plain search will do.
        """
        found = list(forced)
        if self.terms:
            longest, words, start = max(map(len, self.terms)), WORD.findall(source), 0
            while start < len(words):
                some = tuple(words[start : start + longest])
                keys = [some[:end] for end in range(len(some), 0, -1)]
                if start == 0 or words[start - 1] in SENTENCE_ENDS:
                    keys = [key for each in keys for key in (each, (with_first(str.lower, each[0]), *each[1:]))]
                key = next((key for key in keys if key in self.terms), None)
                if key and self.terms[key] not in found:
                    found.append(self.terms[key])
                start += len(key or "1")
        demand = Demand(self.prefix if first else [], found)
        return demand if demand.tokens or self.avoided.phrases else None

    def constraints(self, demands: Sequence[Demand], device: Any) -> Constraints:
        """Those of a search of such sentences."""
        return Constraints(demands, self.spelling, self.avoided, device)


@lru_cache(maxsize=16)
def rules_of(
    tokenizer: Tokenizer, prefix: str | None, glossary: Sequence[Sequence[str]], avoid: Sequence[str]
) -> Rules:
    """The rules of options; what a user did wrong in them is told."""
    spelling = Spelling(tokenizer.target, tokenizer.settings.subwords)
    phrases = [words_of(tokenizer, text, "avoid") for text in avoid]
    avoided = Avoided([*phrases, *(with_first(str.upper, phrase) for phrase in phrases)], spelling)
    terms: dict[tuple[str, ...], list[list[int]]] = {}
    for source, *targets in glossary:
        forms = terms.setdefault(tuple(WORD.findall(words_of(tokenizer, source, "glossary", target=False))), [])
        for target in targets:
            form = allowed_numbers(tokenizer, target, f"glossary: {source!r:.60}", avoided)
            capital = with_first(str.upper, target)
            forms.append(form)
            numbers = tokenizer.encode(capital, target=True)[:-1]
            if numbers != form and UNKNOWN not in numbers and not avoided.within(words_of(tokenizer, capital, "")):
                forms.append([END, *numbers])
    begun = [] if prefix is None else allowed_numbers(tokenizer, prefix, "prefix", avoided)
    if prefix is not None and tokenizer.decode(begun) != " ".join(prefix.split()):
        told = f"a translation would begin with {tokenizer.decode(begun)!r:.60} instead"
        raise UserError(f"prefix {prefix!r:.60}: {told}: give that")
    return Rules(begun, terms, avoided, spelling)


def words_of(tokenizer: Tokenizer, text: str, name: str, target: bool = True) -> str:
    """The words of a user's text, spaces between."""
    try:
        words = joined(" ".join(tokenizer.pieces(text, target)), tokenizer.settings.subwords)
    except ValueError as error:
        raise UserError(f"{name}: {text!r:.60}: {error}") from error
    if not words:
        raise UserError(f"{name}: {text!r:.60} has no word: leave it out, or give one")
    return words


def allowed_numbers(tokenizer: Tokenizer, text: str, name: str, avoided: Avoided) -> list[int]:
    """The numbers of a text that must come out, which the vocabulary has to have, and no rule forbid."""
    phrase = avoided.within(words_of(tokenizer, text, name))
    if phrase is not None:
        raise UserError(f"{name}: {text!r:.60} holds {phrase!r:.60}, which is to be avoided: leave one of them out")
    numbers = tokenizer.encode(text, target=True)[:-1]
    if UNKNOWN in numbers:
        piece = tokenizer.pieces(text, target=True)[numbers.index(UNKNOWN)]
        raise UserError(f"{name}: {text!r:.60}: the model's vocabulary has no {piece!r}: choose another word")
    return numbers


def with_first(change: Any, text: str) -> str:
    """A text whose first letter is changed."""
    return change(text[:1]) + text[1:]


def read_glossary(path: PathLike) -> list[list[str]]:
    """A file's lines of a source term, a tab, and a target term or several forms of it with tabs between."""
    terms = [line.split("\t") for line in read_lines(path)]
    for number, columns in enumerate(terms, 1):
        if len(columns) < 2 or not all(map(str.strip, columns)):
            raise UserError(f"{path}:{number}: is not a source term, a tab and a target term or more, tabs between")
    return terms
