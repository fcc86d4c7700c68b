"""From raw lines to words: settled characters, then Moses' tokenization rules by sacremoses."""

from dataclasses import dataclass
from typing import Literal

from sacremoses import MosesTokenizer

from resmlp_mt.corpora.characters import Settler


@dataclass(frozen=True)
class Words:
    """How raw text becomes words, for both languages.

    Attributes:
        tokenizer: ``"moses"``, or ``"none"`` where words are what stands between spaces (or sentencepiece decides)
        dash_splits: split hyphenated compounds as ``tokenizer.perl -a`` does (``well @-@ known``); the reference of
            tokenized BLEU with compound splitting must not be tokenized so
        normalize: normalise punctuation first (fairseq's ``--tokenizer moses`` does not)
    """

    tokenizer: Literal["moses", "none"] = "moses"
    dash_splits: bool = False
    normalize: bool = True

    @property
    def fairseq_options(self) -> list[str]:
        """The options with which fairseq-interactive splits settled raw text into the very same words."""
        if self.tokenizer == "none":
            return []
        dashes = [] if self.dash_splits else ["--moses-no-dash-splits"]
        return ["--tokenizer", "moses", *dashes, "--moses-no-escape"]


class LineTokenizer:
    """Turns one raw line into words with single spaces between them. XML special characters are not escaped."""

    def __init__(self, lang: str, words: Words):
        self._settle = Settler(lang, punctuation=words.normalize)
        self._moses = MosesTokenizer(lang) if words.tokenizer == "moses" else None
        self._dash_splits = words.dash_splits

    def __call__(self, line: str) -> str:
        line = self._settle(line)
        if self._moses is None:
            return line
        return self._moses.tokenize(line, aggressive_dash_splits=self._dash_splits, return_str=True, escape=False)


class PairTokenizer:
    """A ``LineTokenizer`` for each side of a pair."""

    def __init__(self, langs: tuple[str, str], words: Words):
        self._sides = [LineTokenizer(lang, words) for lang in langs]

    def __call__(self, pair: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(tokenize(line) for tokenize, line in zip(self._sides, pair, strict=True))
