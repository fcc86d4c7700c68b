"""From a raw line to words and back: cleaned characters, then Moses' tokenization rules by sacremoses."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .characters import CharacterCleaner
from .moses import Tokenizer, detokenizer

LONGEST_WORD = 10_000  # letters, where no line is dropped: more would take minutes to be split into subwords
TOKENIZERS = "moses", "none"


def _option(default: Any, help: str, **more: Any) -> Any:
    return field(default=default, metadata={"help": help, **more})


@dataclass(frozen=True)
class Words:
    """How raw text becomes words, for both languages: options, with what they are called on a command line."""

    tokenizer: str = _option(
        "moses", "what makes words of text: Moses' rules, or the spaces alone", name="tokenize", choices=TOKENIZERS
    )
    dash_splits: bool = _option(False, "split compounds at hyphens (tokenizer.perl -a): well @-@ known")
    normalize: bool = _option(True, "normalize quotes, dashes and so on", name="keep-punctuation")


class LineTokenizer:
    """Turns one raw line into words with single spaces between them; XML special characters stay as they are."""

    def __init__(self, lang: str, words: Words):
        self._clean = CharacterCleaner(lang, punctuation=words.normalize)
        self._moses = Tokenizer(lang) if words.tokenizer == "moses" else None
        self._options = {"aggressive_dash_splits": words.dash_splits, "return_str": True, "escape": False}

    def __call__(self, line: str) -> str:
        line = self._clean(line)
        return line if self._moses is None else self._moses.tokenize(line, **self._options)


def running_text(lang: str, words: Words) -> Callable[[str], str]:
    """A function from words with single spaces between to running text; told what ``LineTokenizer`` was."""
    return detokenizer(lang, escaped=False) if words.tokenizer == "moses" else lambda line: line


def check_words(line: str) -> None:
    """See that a line's words can be split into subwords; a ValueError if one has no end."""
    longest = max(map(len, line.split()), default=0)
    if longest > LONGEST_WORD:
        raise ValueError(f"a word of {longest:,} letters: at most {LONGEST_WORD:,} can be split into subwords")
