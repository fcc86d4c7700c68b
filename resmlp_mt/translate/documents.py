"""Translation of whole texts and files: split them into sentences, translate these, and join them again."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import check_can_be_written, check_new, check_outputs, decoded, open_input, write_whole
from resmlp_mt.translate.markdown import add_markdown
from resmlp_mt.translate.marks import Parts
from resmlp_mt.translate.markup import add_html
from resmlp_mt.translate.numbers import number_problems
from resmlp_mt.translate.options import Options
from resmlp_mt.translate.paragraphs import add_subtitles, add_text
from resmlp_mt.translate.translator import Translation, Translator

WINDOW = 256  # sentences between two reports of progress
FORMATS: dict[str, Callable[[Parts, str], None]] = {
    "text": add_text,
    "html": add_html,
    "markdown": add_markdown,
    "srt": add_subtitles,
}
CHARSET = re.compile(
    r"""(<\?xml\b[^>]*\bencoding\s*=\s*["']|<meta\b(?![^>]*\bname\s*=)[^>]*\bcharset\s*=\s*["']?)(?!utf-?8\b)[\w:.-]+""",
    re.IGNORECASE,
)
ENDINGS = {".txt": "text", ".html": "html", ".htm": "html", ".md": "markdown", ".srt": "srt"}


def document_of(text: str, format: str = "text", language: str = "en") -> Parts:
    """Split a text of one of ``FORMATS`` into parts; ``language`` is that of its sentences."""
    if format not in FORMATS:
        raise UserError(f"format {format!r}: give one of {', '.join(FORMATS)}")
    document = Parts(language)
    mark = text[: text.startswith("\ufeff")]  # a byte order mark, or nothing
    document.parts.append(mark)
    FORMATS[format](document, text[len(mark) :])
    return document


def translate_text(translator: Translator, text: str, format: str = "text", **options: Any) -> str:
    """Translate a text of any length; ``options`` are fields of ``Options``, but ``n_best`` must be 1."""
    document = document_of(text, format, translator.tokenizer.settings.source_language)
    return document.joined(translations_of(translator, document, Options(**options)))


def translations_of(
    translator: Translator, document: Parts, options: Options, progress: Callable[[int], None] = lambda _: None
) -> list[Translation]:
    """Translate a document's sentences; ``progress`` is called with the number of sentences of each finished window."""
    if options.n_best > 1:
        raise UserError(f"n_best {options.n_best}: a document has one translation")
    encoded = [  # all, before any is translated: one may be too long
        translator.encode(text, options.too_long, f"{text[:40]!r}...: ", tagged)
        for text, tagged in zip(document.sentences, document.tagged, strict=True)
    ]
    found: list[Translation] = []
    for start in range(0, len(encoded), WINDOW):
        window = encoded[start : start + WINDOW]
        found += [best for (best,) in translator.translate_encoded(window, options)]
        progress(len(window))
    return found


def translate_document(
    load: Callable[[], Translator], source: Path, target: Path, options: Options, progress: Callable[[int], None]
) -> Iterator[str]:
    """Translate a file; ``target``, which must be new and have the same ending, appears whole or not at all.

    Return lines about numbers that are missing or new.
    """
    format, other = (ENDINGS.get(path.suffix.lower()) for path in (source, target))
    if format is None or format != other:
        raise UserError(f"{source}, {target}: give two names that end alike, in {', '.join(ENDINGS)}")
    check_outputs([target], [source])
    check_new(target)
    check_can_be_written(target)
    with open_input(source, decompressed=False) as file:
        text = decoded(file.read(), source)
    if format == "html":  # the new file is in UTF-8, too
        text = CHARSET.sub(r"\1utf-8", text)
    translator = load()
    try:
        document = document_of(text, format, translator.tokenizer.settings.source_language)
        found = translations_of(translator, document, options, progress)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error
    write_whole(target, document.joined(found))
    pairs = zip(document.sentences, found, strict=True)
    # a generator: the numbers are compared only if somebody reads the lines
    return (line for text, best in pairs for line in number_problems(f"{source}: {text[:40]!r}: ", text, best.text))
