"""sacremoses' normalizer and tokenizer, made faster: the same rules in order, skipping those that cannot match."""

import re
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

_AMOUNT = re.compile(r"(\d [$£¥€])(?=[^\W\d]|\()")  # behind which Moses' rules took the space away
_GROUP = re.compile(r"(?<!\\)\([^()]*\)")  # a group of a pattern
_PLAIN = re.compile(r"(?:[^\\.^$*+?{}\[\]|()]|\\\W)*")  # characters that stand for themselves


def has_abbreviations(lang: str) -> bool:
    """Return whether sacremoses has a language's own list of abbreviations; if not, it uses the English one."""
    return lang in NonbreakingPrefixes().available_langs.values()


def spelled_out(pattern: str) -> str:
    """Return a string that every text changed by the rule ``pattern`` contains; empty if none is easy to find."""
    if pattern == r" +":
        return "  "  # it makes one space of several
    runs = [run for run in _GROUP.split(pattern) if _PLAIN.fullmatch(run)]
    return re.sub(r"\\(.)", r"\1", max(runs, key=len, default=""))


def detokenizer(lang: str, escaped: bool = True) -> Callable[[str], str]:
    """Return a function that turns Moses tokens, separated by spaces, into running text.

    With ``escaped``, XML special characters are unescaped; in text without such, this harms only ``&apos;`` itself.
    Except in English, the space after an amount is kept (``100 € pro Jahr``): Moses removes it, as before a number.
    """
    moses = MosesDetokenizer(lang)

    def detokenized(tokens: str) -> str:
        text = moses.detokenize(tokens.split(), return_str=True, unescape=escaped)
        return text if lang == "en" else _AMOUNT.sub(r"\1 ", text)

    return detokenized


class PunctuationNormalizer(MosesPunctNormalizer):
    """sacremoses' port of ``normalize-punctuation.perl``; rules that cannot match are skipped."""

    def __init__(self, lang: str):
        super().__init__(lang)
        self._rules = [(spelled_out(rule), re.compile(rule).sub, new) for rule, new in self.substitutions]

    def normalize(self, text: str) -> str:
        for needed, substitute, new in self._rules:
            if needed in text:
                text = substitute(new, text)
        return text.strip()


class Tokenizer(MosesTokenizer):
    """sacremoses' port of ``tokenizer.perl``; rules that cannot match are skipped."""

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
            # Whether a final period is split off depends on its token and on the next one.
            if token[-1] == "." and len(token) > 1:
                both = super().handles_nonbreaking_prefixes(" ".join(tokens[number : number + 2]))
                if not both.startswith(token):
                    tokens[number] = token[:-1] + " ."
        return " ".join(tokens)


def _lacks(character: str) -> Callable[[str], bool]:
    return lambda text: character not in text


# For each rule, a function that finds texts which the rule cannot change.
_LEFT_ALONE: dict[str, Callable[[str], bool]] = {
    # isprintable() is false for all white space except the space itself
    "DEDUPLICATE_SPACE": lambda text: "  " not in text and text.isprintable(),
    "ASCII_JUNK": str.isprintable,
    "AGGRESSIVE_HYPHEN_SPLIT": _lacks("-"),
    "COMMA_SEPARATE_1": _lacks(","),
    "COMMA_SEPARATE_2": _lacks(","),
    "COMMA_SEPARATE_3": _lacks(","),
}


def _unless(is_left_alone: Callable[[str], bool], rule: tuple[Any, str]) -> tuple[Any, str]:
    """Return the rule, skipped for texts that it cannot change. Of its pattern, sacremoses only calls ``sub``."""
    return SimpleNamespace(sub=lambda new, text: text if is_left_alone(text) else rule[0].sub(new, text)), rule[1]
