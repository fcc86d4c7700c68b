"""From a raw line to words and back: characters are cleaned, then sacremoses applies Moses' tokenization rules."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .moses import PunctuationNormalizer, Tokenizer, detokenizer

CHARACTER_RULES = """\
What becomes of the characters of a raw line, which ends at LF alone:
  not UTF-8                     a training pair is dropped and counted; in validation and test text it is an error
  CR of a CRLF                  dropped
  lone CR, VT, FF, U+001C-1E,   a space: some tool would end the line there
    U+0085, U+2028, U+2029
  tab; an LF inside a text      a space
    that is not from a file
  NUL, byte order mark, soft    dropped, as all of Unicode's category C (control, format, private use, unassigned)
    hyphen, zero-width space
    and joiners, also of emoji
  ▁ (U+2581)                    _, which it looks like: sentencepiece takes it for a space
  no-break space                as Moses normalizes punctuation (5_% -> 5%, 1_000 -> 1,000 or 1.000), else a space
  other white space             a space; runs of white space become one, and none is left at the ends

Words of more than 1,000 letters, and words that end in @@, <s>, <pad>, </s> or <unk>, are split into subwords and come
back as all others, but BPE is not learned from them. In validation and test text a word of more than 10,000 letters is
an error; a training pair with one is too long.
"""

# fairseq-preprocess reads in Python's text mode, which ends a line at a lone CR; `str.splitlines` and `codecs` also end
# lines at the other characters. A tab is a control character that separates words, and so is an LF in a text that is
# not from a file of lines.
_SPACES = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
# Common characters that are neither replaced nor removed: most lines hold no others.
_SETTLED = re.compile("[ -~\xa0-\xac\xae-\u024f\u2010-\u2027\u2030-\u205e\u20ac]*")


class CharacterCleaner:
    """Makes any line safe for line- and word-based tools (see ``CHARACTER_RULES``) and normalizes its punctuation.

    It does so by sacremoses' port of Moses' ``normalize-punctuation.perl``, whose rules for quotes next to commas and
    for spaces in numbers depend on the language. Without ``punctuation``, quotes, dashes and so on stay as they are.
    """

    def __init__(self, lang: str, punctuation: bool = True):
        self._normalizer = PunctuationNormalizer(lang)
        self._punctuation = punctuation

    def __call__(self, line: str) -> str:
        if not _SETTLED.fullmatch(line):
            line = self._normalizer.remove_control_chars(_SPACES.sub(" ", line)).replace("\u2581", "_")
        if self._punctuation:
            # Moses' scripts and sacremoses' command keep the line end; before it, a rule changes `."` to `".`
            line = self._normalizer.normalize(f"{line}\n")
        return " ".join(line.split())


LONGEST_WORD = 10_000  # letters, where no line may be dropped: a longer word takes minutes to split into subwords
TOKENIZERS = "moses", "none"


def _option(default: Any, help: str, **more: Any) -> Any:
    return field(default=default, metadata={"help": help, **more})


@dataclass(frozen=True)
class Words:
    """Options of how raw text becomes words, for both languages, with their names on a command line."""

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
    """Return a function from words, separated by single spaces, to running text; arguments as for ``LineTokenizer``."""
    return detokenizer(lang, escaped=False) if words.tokenizer == "moses" else lambda line: line


def check_words(line: str) -> None:
    """Raise a ``ValueError`` if a word of a line is too long to be split into subwords."""
    longest = max(map(len, line.split()), default=0)
    if longest > LONGEST_WORD:
        raise ValueError(f"a word of {longest:,} letters: at most {LONGEST_WORD:,} can be split into subwords")
