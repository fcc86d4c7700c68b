"""The record of how raw text was prepared, kept with the data: later text is prepared, and restored, in the same way.

``data-bin`` holds the record, ``text.json``, and the learned subwords that it names. Nothing else is needed.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, checksum, read_object, write_json, write_whole
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.subwords import joined
from resmlp_mt.text.tokenizer import TextSettings
from resmlp_mt.text.words import LineTokenizer, Words, check_words, running_text

NAME = "text.json"
VERSION = 1  # of the file's contents, and of the rules in ``resmlp_mt.text.words``
AGAIN = "prepare the data again (resmlp-mt prepare-text), or give --tokenizer and --bpe to fairseq's commands"
# Allowed values of the file: regular expressions for their JSON. Older files also have "escape": false.
RIGHT = {
    "version": str(VERSION),
    "languages": r'\["[A-Za-z0-9_]{1,64}", "[A-Za-z0-9_]{1,64}"\]',
    "tokenizer": '"(moses|none)"',
    "dash_splits": "true|false",
    "normalize": "true|false",
    "subwords": '"(bpe|sentencepiece)"',
    "learned": '"[A-Za-z0-9_][A-Za-z0-9_.-]*"',  # a name in the folder, not a path out of it
    "sha256": '"[0-9a-f]{64}"',
}


@dataclass(frozen=True)
class RawText:
    """The conversion of raw text to subwords, and of subwords back to running text."""

    folder: Path  # where the learned subwords are
    languages: tuple[str, str]  # source and target, as the data was prepared
    words: Words
    subwords: Subwords
    learned: str  # name of the file of learned subwords, in the folder
    sha256: str = ""  # checksum of that file

    def settings(self, source: str, target: str) -> TextSettings:
        """Return these settings for a ``Tokenizer`` of ``resmlp_mt.text``, from language ``source`` to ``target``."""
        return TextSettings(source, target, **asdict(self.words), subwords=self.subwords.kind)

    @classmethod
    def of(cls, folder: PathLike) -> "RawText":
        """Read the record in a folder."""
        path = Path(folder) / NAME
        try:
            values = read_object(path)
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}: {AGAIN}") from error
        if values is None:
            raise UserError(f"{path}: not what preparing writes: {AGAIN}")
        for name, right in RIGHT.items():
            value = values.get(name)
            if not re.fullmatch(right, json.dumps(value)):
                raise UserError(f"{path}: {name} is {repr(value)[:60]}, which preparing does not write: {AGAIN}")
        languages, learned, sha256 = (values[name] for name in ("languages", "learned", "sha256"))
        words = Words(**{each.name: values[each.name] for each in fields(Words)})
        return cls(Path(folder), tuple(languages), words, Subwords(values["subwords"]), learned, sha256)

    def write(self, learned: Path) -> None:
        """Write this record, and a copy of the learned subwords, to the folder."""
        write_whole(self.folder / self.learned, learned.read_bytes())
        write_json(self.folder / NAME, replace(self, sha256=checksum(learned)).values)

    @property
    def files(self) -> list[Path]:
        """The files that ``write`` writes."""
        return [self.folder / self.learned, self.folder / NAME]

    @property
    def values(self) -> dict[str, Any]:
        """The contents of the file."""
        text = {"version": VERSION, "languages": list(self.languages), **asdict(self.words)}
        return {**text, "subwords": self.subwords.kind, "learned": self.learned, "sha256": self.sha256}

    def check_languages(self, source: str | None, target: str | None) -> tuple[str, str]:
        """Check and return source and target language, in either direction; None: taken from the prepared data."""
        first, second = self.languages
        source = source or (first if target != first else second)
        target = target or (second if source != second else first)
        if {source, target} != {first, second}:
            raise UserError(f"{self.folder / NAME}: for {first} and {second}, not for {source} to {target}: {AGAIN}")
        return source, target

    def tokenizer(self, language: str) -> Callable[[str], str]:
        """Return a function from a raw line to its words, separated by single spaces."""
        return LineTokenizer(language, self.words)

    def detokenizer(self, language: str) -> Callable[[str], str]:
        """Return a function from words, separated by spaces, to running text."""
        return running_text(language, self.words)

    def running_text(self, language: str) -> Callable[[str], str]:
        """Return a function from subwords separated by spaces, such as a translation, to running text."""
        detokenize = self.detokenizer(language)
        return lambda subwords: detokenize(self.join(subwords))

    def splitter(self) -> Callable[[str], str]:
        """Check the learned subwords; return a function from words to subwords, both separated by single spaces."""
        path = self.folder / self.learned
        if checksum(path) != self.sha256:
            raise UserError(f"{path}: not the file that preparing left there: {AGAIN}")
        split = self.subwords.load(path)

        def bounded(words: str) -> str:
            try:
                check_words(words)
            except ValueError as error:
                raise UserError(str(error)) from error
            return split(words)

        return bounded

    def join(self, subwords: str) -> str:
        """Join subwords to words, both separated by single spaces. What --post-process has joined stays as it is."""
        return joined(subwords, self.subwords.kind)
