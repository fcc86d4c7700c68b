"""A user's rules for all translations: a prefix, a glossary and avoided phrases, as constraints of each sentence."""

import re
from collections.abc import Sequence
from functools import lru_cache

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, read_lines
from resmlp_mt.text.subwords import WORD_START, joined
from resmlp_mt.text.tokenizer import END, UNKNOWN, Tokenizer
from resmlp_mt.translate.constraints import Demand, Forms, TargetWords
from resmlp_mt.translate.words import IN_WORD, MARKS, UNSPACED, within_word

WORD = re.compile(rf"(?:{IN_WORD.pattern})+|\S[{MARKS}]*")  # a word of a source text; each letter of UNSPACED is one
SENTENCE_ENDS = frozenset('.!?…:;"')  # the word after one may have a capital letter only because of it


class Rules:
    """A user's constraints on all translations (prefix, glossary, avoided phrases), in a model's tokens."""

    def __init__(
        self, tokenizer: Tokenizer, prefix: str | None, glossary: Sequence[Sequence[str]], avoid: Sequence[str]
    ):
        self._subwords = subwords = tokenizer.settings.subwords
        phrases = [joined(" ".join(pieces_of(tokenizer, text, "avoid")), subwords) for text in avoid]
        self.words = TargetWords(tokenizer.target, subwords, {*phrases, *map(capital, phrases)})
        self.prefix = [] if prefix is None else numbers_of(tokenizer, prefix, "prefix")
        given = [(self.prefix, prefix or "")]  # what is forced, and its text
        self._terms: dict[tuple[str, ...], list[list[int]]] = {}  # forms by the words of a source term
        for term, *targets in glossary:
            pieces = pieces_of(tokenizer, term, "glossary", target=False)
            forms = self._terms.setdefault(tuple(WORD.findall(joined(" ".join(pieces), subwords))), [])
            for target in targets:
                forms.append(numbers_of(tokenizer, target, f"glossary: {term!r:.60}"))
                others = [[END, *tokenizer.encode(capital(target), target=True)[:-1]]]
                given += [(forms[-1], target), (others[0], capital(target))]
                if re.match(f"[{UNSPACED}]", target):  # also without sentencepiece's space before it
                    inside = " ".join(tokenizer.pieces(target, target=True)).removeprefix(WORD_START).split()
                    others.append(tokenizer.numbers(inside, target=True)[:-1])
                forms += [form for form in others if UNKNOWN not in form]
        self._longest = max(map(len, self._terms), default=0)
        self._given: dict[str, str] = {}  # what would come out as other text (AT & T), without spaces: as it was given
        patterns: dict[str, str] = {}
        for form, text in given:
            words = joined(" ".join(tokenizer.target[each] for each in form if each != END), subwords)
            text = "".join(filter(str.isprintable, " ".join(text.split())))
            if UNKNOWN not in form and not text == words == tokenizer.decode(form):
                key = words.replace("@-@", "-").replace(" ", "")
                self._given[key] = text
                patterns[key] = pattern_of(key, at_start=form is self.prefix)
        self._changed = re.compile("|".join(patterns[key] for key in sorted(patterns, key=len, reverse=True)))

    def respelled(self, text: str) -> str:
        """Return running text in which all that is forced is written as it was given."""
        return self._changed.sub(lambda found: self._given[found[0].replace(" ", "")], text) if self._given else text

    def demand(self, pieces: Sequence[str], first: bool) -> Demand | None:
        """Return a sentence's demand; ``first``: it is the first of its text. None: the plain search is enough."""
        prefix = self.prefix if first else []
        forced = self._terms_in(joined(" ".join(pieces), self._subwords)) if self._terms else []
        return Demand(prefix, forced) if prefix or forced or self.words.longest else None

    def _terms_in(self, source: str) -> list[Forms]:
        """Return the forms of each term of a sentence, once; the longest of terms that begin at the same word."""
        words, start = WORD.findall(source), 0
        found: list[Forms] = []
        while start < len(words):
            keys = [tuple(words[start:end]) for end in range(start + 1, min(start + self._longest, len(words)) + 1)]
            if start == 0 or words[start - 1] in SENTENCE_ENDS:
                keys += [(key[0][:1].lower() + key[0][1:], *key[1:]) for key in keys]
            key = max((key for key in keys if key in self._terms), key=len, default=None)
            if key and self._terms[key] not in found:
                found.append(self._terms[key])
            start += len(key) if key else 1
        return found


def pattern_of(key: str, at_start: bool) -> str:
    """Return a pattern of whole words that are ``key`` without their spaces; ``at_start``: of a prefix."""
    spelled, letter = " ?".join(map(re.escape, key)), IN_WORD.pattern
    if at_start:
        return rf"\A{spelled}"
    before = f"(?<!{letter})" if within_word(key[0]) else ""
    behind = f"(?!{letter})" if within_word(key[-1]) else ""
    return f"{before}{spelled}{behind}"


rules_of = lru_cache(maxsize=16)(Rules)


def pieces_of(tokenizer: Tokenizer, text: str, name: str, target: bool = True) -> list[str]:
    """Return the subwords of a user's text; errors begin with ``name``."""
    try:
        pieces = tokenizer.pieces(text, target)
    except ValueError as error:
        raise UserError(f"{name}: {text!r:.60}: {error}") from error
    if not pieces:
        raise UserError(f"{name}: {text!r:.60} has no word: leave it out, or give one")
    return pieces


def numbers_of(tokenizer: Tokenizer, text: str, name: str) -> list[int]:
    """Return the token numbers of a text that must come out; the vocabulary must have all its subwords."""
    pieces = pieces_of(tokenizer, text, name)
    numbers = tokenizer.numbers(pieces, target=True)[:-1]
    if UNKNOWN in numbers:
        piece = pieces[numbers.index(UNKNOWN)]
        raise UserError(f"{name}: {text!r:.60}: the model's vocabulary has no {piece!r}: choose another word")
    return numbers


def capital(text: str) -> str:
    """A text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


def read_glossary(path: PathLike) -> list[list[str]]:
    """Read a glossary: in each line a source term and one or more forms of its target term, separated by tabs."""
    terms = [line.split("\t") for line in read_lines(path)]
    for number, columns in enumerate(terms, 1):
        if len(columns) < 2 or not all(map(str.strip, columns)):
            raise UserError(f"{path}:{number}: is not a source term, a tab and a target term or more, tabs between")
    return terms
