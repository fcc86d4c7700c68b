"""Texts of many sentences: what of them is translated, and how the translations become a text again."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from resmlp_mt.translate.translator import Translation

FORMATS = "text", "html"


class Document(Protocol):
    """A text in parts."""

    sentences: Sequence[str]

    def joined(self, translations: Sequence[Translation]) -> str:
        """The whole text, of a translation for each sentence."""


class Unchanged:
    """A text that needs no translation."""

    sentences: Sequence[str] = ()

    def __init__(self, text: str):
        self._text = text

    def joined(self, translations: Sequence[Translation]) -> str:
        return self._text


class Lines:
    """A text whose lines are translated by themselves."""

    def __init__(self, text: str):
        self._lines = text.split("\n")
        self.sentences: Sequence[str] = [line for line in self._lines if line.strip()]

    def joined(self, translations: Sequence[Translation]) -> str:
        left = iter(translations)
        return "\n".join(next(left).text if line.strip() else line for line in self._lines)


def document_of(text: str, kind: str) -> Document:
    return Lines(text)


def shares(documents: Iterable[Document], found: Iterable[list[Translation]]) -> Iterator[list[list[Translation]]]:
    """Of the translations of all documents' sentences those of each document."""
    left = iter(found)
    for document in documents:
        yield list(itertools.islice(left, len(document.sentences)))
