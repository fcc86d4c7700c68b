"""Turns text into the numbers of a model's dictionaries, as its data was prepared, and numbers into text."""

import contextlib
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .subwords import SUBWORDS, WORD_START, joined
from .words import TOKENIZERS, LineTokenizer, Words, check_words, running_text

SPECIAL = "<s>", "<pad>", "</s>", "<unk>"
"""The first symbols of every dictionary, as in fairseq."""
START, PAD, END, UNKNOWN = range(4)


@dataclass(frozen=True)
class TextSettings:
    """How text is treated, as the ``text.json`` of prepared data records it."""

    source_language: str  # codes, as the data was prepared
    target_language: str
    tokenizer: str = "moses"  # or "none"
    dash_splits: bool = False  # this one and the next: as in Words
    normalize: bool = True
    subwords: str = "bpe"  # or "sentencepiece"

    @property
    def words(self) -> Words:
        return Words(self.tokenizer, self.dash_splits, self.normalize)


class Tokenizer:
    """Turns text into numbers, and numbers into target text; ``ValueError`` for a wrong setting, symbol or file.

    ``learned``: file of the learned subwords; ``source``, ``target``: symbols of the dictionaries, ``SPECIAL`` first.
    """

    def __init__(
        self, settings: TextSettings, learned: str | os.PathLike[str], source: Sequence[str], target: Sequence[str]
    ):
        if settings.tokenizer not in TOKENIZERS:
            raise ValueError(f"tokenizer is {settings.tokenizer!r}, not one of {', '.join(TOKENIZERS)}")
        if settings.subwords not in SUBWORDS:
            raise ValueError(f"subwords is {settings.subwords!r}, not one of {', '.join(SUBWORDS)}")
        for symbols in source, target:
            if tuple(symbols[: len(SPECIAL)]) != SPECIAL:
                raise ValueError(f"the first symbols of a dictionary are not {' '.join(SPECIAL)}")
        self.settings, self.source, self.target = settings, tuple(source), tuple(target)
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # subword-nmt prints its errors there, and exits
                self._split = SUBWORDS[settings.subwords](learned)
        except (RuntimeError, UnicodeDecodeError, SystemExit) as error:
            raise ValueError(f"{os.fspath(learned)}: not the learned subwords of {settings.subwords}") from error
        languages = settings.source_language, settings.target_language
        self._words = [LineTokenizer(language, settings.words) for language in languages]
        self.vocabularies = [{symbol: n for n, symbol in enumerate(side)} for side in (self.source, self.target)]
        self._running_text = running_text(settings.target_language, settings.words)

    def pieces(self, text: str, target: bool = False) -> list[str]:
        """Return the subwords of a line of text, none if it has no word; ``ValueError`` if a word is too long."""
        words = self._words[target](text.strip())
        check_words(words)
        return self._split(words).split()

    def encode(self, text: str, target: bool = False) -> list[int]:
        """Return the numbers of a line of text, ``</s>`` last; ``ValueError`` if a word is too long."""
        return self.numbers(self.pieces(text, target), target)

    def numbers(self, pieces: Iterable[str], target: bool = False) -> list[int]:
        """Return the numbers of subwords, ``</s>`` last."""
        numbers = self.vocabularies[target]
        return [*(numbers.get(piece, UNKNOWN) for piece in pieces), END]

    def decode(self, numbers: Iterable[int]) -> str:
        """Return the running text of a translation's numbers, without ``<s>``, ``<pad>`` and ``</s>``."""
        return self.running_text(self.target[number] for number in numbers if number not in (START, PAD, END))

    def running_text(self, pieces: Iterable[str]) -> str:
        """Return the running text of target subwords."""
        kind = self.settings.subwords
        first = WORD_START if kind == "sentencepiece" else ""  # even if a translation has none: it is subwords
        return self._running_text(joined(first + " ".join(pieces), kind))
