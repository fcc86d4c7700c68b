"""Whole texts and files: what of them is translated, and how it becomes a text again."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, check_outputs, opened
from resmlp_mt.translate.markdown import Markdown
from resmlp_mt.translate.marks import Event, Parts
from resmlp_mt.translate.markup import Markup
from resmlp_mt.translate.options import Options
from resmlp_mt.translate.paragraphs import LINE, Paragraphs, text_events
from resmlp_mt.translate.translator import Translation, Translator

WINDOW = 256  # sentences that are translated before it is told how far it is
TIMES = re.compile(r"\s*\d+:\d\d:\d\d[,.]\d+ *--> *\d+:\d\d:\d\d[,.]\d+")
CUE_TAG = re.compile(r"(</?\w[^<>]*>|\{\\[^{}]*\})")
SPEAKER = re.compile(r"\s*[-–—]\s*(?=\S)")


class Subtitles(Parts):
    """A file of SubRip (.srt). A sentence may go over the lines of a cue, not from one cue to the next."""

    def __init__(self, text: str, language: str = "en"):
        super().__init__()
        lines = LINE.findall(text)
        number = 0
        while number < len(lines):
            if not lines[number].strip("\ufeff \t\r\n"):
                self.parts.append(lines[number])
                number += 1
                continue
            if not lines[number].strip("\ufeff \t\r\n").isdecimal():
                raise UserError(f"line {number + 1}: is not the number of a subtitle, which follows an empty line")
            if not TIMES.match("".join(lines[number + 1 : number + 2])):
                raise UserError(f"line {number + 2}: is not times such as 00:00:01,000 --> 00:00:02,500")
            self.parts.append("".join(lines[number : number + 2]))
            number += 2
            spoken: list[str] = []
            while number < len(lines) and lines[number].strip():
                if not spoken or SPEAKER.match(lines[number]):
                    spoken.append("")
                spoken[-1] += lines[number]
                number += 1
            for part in spoken:
                start = match.end() if (match := SPEAKER.match(part)) else 0
                self.parts.append(part[:start])
                self.add(list(_cue_events(part[start:])), language)


def _cue_events(text: str) -> list[Event]:
    events: list[Event] = []
    for part in CUE_TAG.split(text):
        if not CUE_TAG.fullmatch(part):
            events += text_events(part)
        else:
            name = "".join(re.findall(r"\w+", part)[:1])
            kind = "point" if part[0] == "{" else "close" if part[1] == "/" else "open"
            events.append(Event(kind, part, name=name))
    return events


FORMATS: dict[str, type[Parts]] = {"text": Paragraphs, "html": Markup, "markdown": Markdown, "srt": Subtitles}
ENDINGS = {".txt": "text", ".html": "html", ".htm": "html", ".md": "markdown", ".srt": "srt"}


def document_of(text: str, format: str = "text", language: str = "en") -> Parts:
    """A text of one of ``FORMATS`` in parts; ``language`` is that of its sentences."""
    if format not in FORMATS:
        raise UserError(f"format {format!r}: give one of {', '.join(FORMATS)}")
    return FORMATS[format](text, language)  # type: ignore[call-arg]


def translate_text(translator: Translator, text: str, format: str = "text", **options: Any) -> str:
    """Translate a text of any length; ``options`` are fields of ``Options``, without those of several translations."""
    document = document_of(text, format, translator.tokenizer.settings.source_language)
    return document.joined(translations_of(translator, document, Options(**options)))


def translations_of(
    translator: Translator, document: Parts, options: Options, told: Callable[[int], None] = lambda _: None
) -> list[Translation]:
    """Those of a document's sentences; ``told`` is called with the numbers of those that are done."""
    if options.n_best > 1:
        raise UserError(f"n_best {options.n_best}: a document has one translation")
    sentences = document.sentences
    found: dict[int, Translation] = {}
    for marked in False, True:
        wanted = replace(options, alignment=marked, alignment_by="omission")
        numbers = [number for number, has in enumerate(document.marked) if has == marked]
        for start in range(0, len(numbers), WINDOW):
            window = numbers[start : start + WINDOW]
            encoded = [_encoded(translator, sentences[number], options) for number in window]
            best = [each[0] for each in translator.translate_encoded(encoded, wanted)]
            found.update(zip(window, best, strict=True))
            told(len(window))
    return [found[number] for number in range(len(sentences))]


def _encoded(translator: Translator, sentence: str, options: Options) -> Any:
    try:
        return translator.encode(sentence, options.too_long)
    except UserError as error:
        raise UserError(f"{sentence[:40]!r}...: {error}") from error


def read_document(path: Path) -> str:
    """The text of a file, with its line ends as they are."""
    with opened(path, decompressed=False) as file:
        content = file.read()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not UTF-8 ({error.reason}): convert it, for example with iconv") from error


def check_documents(source: Path, target: Path) -> str:
    """The format of both files, from their names' ends."""
    formats = [ENDINGS.get(path.suffix.lower()) for path in (source, target)]
    if formats[0] is None or formats[0] != formats[1]:
        raise UserError(f"{source}, {target}: give two names that end alike, in {', '.join(ENDINGS)}")
    check_outputs([target], [source])
    if os.path.lexists(target):
        raise UserError(f"{target}: is there already: move it away, or choose another name")
    return formats[0]


def translate_document(
    translator: Translator, source: Path, target: Path, options: Options, told: Callable[[int], None]
) -> None:
    """Translate a file; the other one appears whole or not at all."""
    text, format = read_document(source), check_documents(source, target)
    try:
        document = document_of(text, format, translator.tokenizer.settings.source_language)
        found = translations_of(translator, document, options, told)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error
    with atomic_write(target) as file:
        file.write(document.joined(found))
