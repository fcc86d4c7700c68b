"""sacremoses' normalizer and tokenizer, made quick: the same rules in the same order, but those that cannot match."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

# For patterns that are not plain characters: what every text that they change must contain.
_HOLDS = {r" +": "  "}
_AMOUNT = re.compile(r"(\d [$£¥€])(?=[^\W\d]|\()")
_GROUP = re.compile(r"(?<!\\)\([^()]*\)")
_PLAIN = re.compile(r"(?:[^\\.^$*+?{}\[\]|()]|\\\W)*")


def has_abbreviations(lang: str) -> bool:
    """Whether sacremoses has a language's own list of words whose period ends no sentence; else it takes English's."""
    return lang in NonbreakingPrefixes().available_langs.values()


def spelled_out(pattern: str) -> str:
    """A text that every text changed by sacremoses' rule for ``pattern`` holds; empty where it is not plain to see."""
    runs = [run for run in _GROUP.split(pattern) if _PLAIN.fullmatch(run)]
    return _HOLDS.get(pattern) or re.sub(r"\\(.)", r"\1", max(runs, key=len, default=""))


def detokenizer(lang: str, escaped: bool = True) -> Callable[[str], str]:
    """A function from Moses' tokens, with spaces between, to running text.

    Where XML special characters are not escaped, ``escaped`` does harm only to text that itself holds ``&apos;``.
    But in English, the space behind an amount stays (``100 € pro Jahr``), which Moses takes for one before a number.
    """
    moses = MosesDetokenizer(lang)

    def detokenized(tokens: str) -> str:
        text = moses.detokenize(tokens.split(), return_str=True, unescape=escaped)
        return text if lang == "en" else _AMOUNT.sub(r"\1 ", text)

    return detokenized


class PunctuationNormalizer(MosesPunctNormalizer):
    """``normalize-punctuation.perl`` as sacremoses has it."""

    def __init__(self, lang: str):
        super().__init__(lang)
        self._rules = [(spelled_out(rule), re.compile(rule).sub, new) for rule, new in self.substitutions]

    def normalize(self, text: str) -> str:
        for needed, substitute, new in self._rules:
            if needed in text:
                text = substitute(new, text)
        return text.strip()


class Tokenizer(MosesTokenizer):
    """``tokenizer.perl`` as sacremoses has it."""

    def __init__(self, lang: str):
        super().__init__(lang)
        self._lower = frozenset(self.IsLower)
        self._alpha = frozenset(self.IsAlpha)
        self.NONBREAKING_PREFIXES = frozenset(vars(self)["NONBREAKING_PREFIXES"])
        for name, is_left_alone in _LEFT_ALONE.items():
            setattr(self, name, _unless(is_left_alone, getattr(self, name)))
        for name in ("ENGLISH_SPECIFIC_APOSTROPHE", "FR_IT_SPECIFIC_APOSTROPHE"):
            setattr(self, name, [_unless(_lacks("'"), rule) for rule in getattr(self, name)])

    def islower(self, text: Iterable[str]) -> bool:
        return self._lower.issuperset(text)

    def isanyalpha(self, text: Iterable[str]) -> bool:
        return not self._alpha.isdisjoint(text)

    def replace_multidots(self, text: str) -> str:
        return super().replace_multidots(text) if ".." in text else text

    def restore_multidots(self, text: str) -> str:
        return super().restore_multidots(text) if "DOTMULTI" in text else text

    def handles_nonbreaking_prefixes(self, text: str) -> str:
        tokens = text.split()
        for number, token in enumerate(tokens):
            # What becomes of a final period depends on its token and on the next one.
            if token[-1] == "." and len(token) > 1:
                both = super().handles_nonbreaking_prefixes(" ".join(tokens[number : number + 2]))
                if not both.startswith(token):
                    tokens[number] = token[:-1] + " ."
        return " ".join(tokens)


def _lacks(character: str) -> Callable[[str], bool]:
    return lambda text: character not in text


def _is_single_spaced(text: str) -> bool:
    # All white space but the space itself counts as not printable.
    return "  " not in text and text.isprintable()


# Which texts a rule cannot change.
_LEFT_ALONE: dict[str, Callable[[str], bool]] = {
    "DEDUPLICATE_SPACE": _is_single_spaced,
    "ASCII_JUNK": str.isprintable,
    "AGGRESSIVE_HYPHEN_SPLIT": _lacks("-"),
    "COMMA_SEPARATE_1": _lacks(","),
    "COMMA_SEPARATE_2": _lacks(","),
    "COMMA_SEPARATE_3": _lacks(","),
}


class _Rule:
    """The one method of a pattern that sacremoses' tokenizer uses."""

    def __init__(self, is_left_alone: Callable[[str], bool], pattern: re.Pattern[str]):
        self._is_left_alone = is_left_alone
        self._sub = pattern.sub

    def sub(self, new: str, text: str) -> str:
        return text if self._is_left_alone(text) else self._sub(new, text)


def _unless(is_left_alone: Callable[[str], bool], rule: tuple[Any, str]) -> tuple[_Rule, str]:
    return _Rule(is_left_alone, rule[0]), rule[1]
