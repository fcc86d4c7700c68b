"""Markdown: text is translated; code, addresses, pictures, markers of lists and headings stay unchanged."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.translate.marks import Event, Parts, paired
from resmlp_mt.translate.markup import Reader, add_html

LINE_END = re.compile(r"\r\n?|\n")
FOLD = re.compile(r"[ \t]*\n[ \t]*")
FRONT_MATTER = re.compile(r"\A---\r?\n(?:.*?\n)??(---|\.\.\.)\r?\n", re.S)
KEPT_TEXT = re.compile(r"(https?://[^\s<>()]*[^\s<>()\[\].,;:!?'\"*_]|\[\^[^\]]+\]:?|^\[(?:[ xX]|![A-Z]+)\](?=\s|$))")
LINKED = r"(\((\\.|[^()\\]|\([^()]*\))*\)|\[[^\]]*\])?"  # behind a text in brackets: an address, or a label
# How elements are written, if the parser does not say it.
WRITTEN = {
    "code_inline": re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S),
    "image": re.compile(r"!\[(\\.|[^\[\]\\]|\[[^\[\]]*\])*\]" + LINKED),
    "autolink": re.compile(r"[^<>]*"),
    "link_open": re.compile(r"[\[<]"),
    "link_close": re.compile(r">|\]" + LINKED),
    "softbreak": re.compile(r"\n"),
    "hardbreak": re.compile(r"\\?\n"),
}
SPECIAL = re.compile(r"^(?=[-+] |#|>)|[\\`*\[\]|]|(?<![^\W_])_|_(?![^\W_])|~(?=~)|<(?=[a-zA-Z/!?])|&(?=#?\w+;)")
NUMBER = re.compile(r"^(\d+)(?=[.)](\s|$))")  # would begin a list


def add_markdown(document: Parts, text: str) -> None:
    """Add CommonMark with tables and HTML to a document; HTML in lists and quotes is not translated."""
    try:
        from markdown_it import MarkdownIt
    except ModuleNotFoundError as error:
        raise UserError("Markdown needs markdown-it-py: pip install markdown-it-py") from error
    front = FRONT_MATTER.match(text)
    done = front.end() if front else 0
    document.parts.append(text[:done])
    starts = [done, *(each.end() for each in LINE_END.finditer(text, done)), len(text)]
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")
    parser.core.ruler.after("block", "footnotes", _forget_footnotes)
    tokens = parser.parse(text[done:])
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "html_block" and token.level == 0 and token.map:
            start, end = (starts[line] for line in token.map)
            document.parts.append(text[done:start])
            add_html(document, text[start:end])
            done = end
        elif token.type == "inline" and token.map and token.children:
            places = _places(token.content, text, starts[token.map[0] :], done)
            if places:
                document.parts.append(text[done : places[0][0]])
                escape = _of_paragraph if before and before.type == "paragraph_open" else _escaped
                document.add(_events(token, text, places), escape)
                done = places[-1][1]
    document.parts.append(text[done:])


def _forget_footnotes(state: Any) -> None:
    """Remove footnotes from the addresses of links: ``[^1]: http://x.org`` is a footnote."""
    references = state.env.get("references", {})
    state.env["references"] = {label: found for label, found in references.items() if label[0] != "^"}


def _escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\g<0>", text)


def _of_paragraph(text: str) -> str:
    return NUMBER.sub(r"\1\\", _escaped(text))


def _places(content: str, text: str, starts: Sequence[int], done: int) -> list[tuple[int, int]]:
    """Return the start and end of each line of a paragraph, a heading or a table's cell; [] if one is not found."""
    places: list[tuple[int, int]] = []
    for number, line in enumerate(FOLD.split(content)):
        first, last = max(done, starts[number]), starts[number + 1]
        find = text.find if "|" in text[first:last] else text.rfind
        spelled = line if find(line, first, last) >= 0 else line.replace("|", "\\|")
        start = find(spelled, first, last)
        if start < 0:
            return []
        places.append((start, start + len(spelled)))
        done = start + len(spelled)
    return places


def _events(paragraph: Any, text: str, places: Sequence[tuple[int, int]]) -> list[Event]:
    """Return the events of a paragraph: what the parser has found, as it is written in the text."""
    content = FOLD.sub("\n", paragraph.content)
    gaps = [text[end:start] for (_, end), (start, _) in pairwise(places)]
    is_cell = len(places) == 1 and text[slice(*places[0])] != content  # a table's cell, in which | is written \|
    events: list[Event] = []
    labels: list[int] = []  # where the labels of open links begin
    at, written = 0, ""
    for token in paragraph.children:
        pattern = WRITTEN.get("autolink" if token.type == "text" and written == "<" else token.type)
        match = pattern.match(content, at) if pattern else None
        written = match[0] if match else FOLD.sub("\n", token.markup or token.content)
        if not content.startswith(written, at):  # not found: the whole paragraph stays unchanged
            return [Event("block", text[places[0][0] : places[-1][1]])]
        raw = re.sub("\n", lambda _: gaps.pop(0), written.replace("|", "\\|") if is_cell else written)
        if token.type == "link_open":
            labels.append(at + len(written))
        elif token.type == "link_close":
            label = " ".join(content[labels.pop() : at].split())
            raw = f"][{label}]" if written in ("]", "][]") else raw  # the text was the label, but it is translated
        at += len(written)
        name, _, kind = token.type.rpartition("_")
        if token.type == "text":
            for number, part in enumerate(KEPT_TEXT.split(written)):
                for piece in re.split(r"(\|)", part) if is_cell else [part]:
                    raw = "\\|" if is_cell and piece == "|" else piece
                    events.append(Event("kept", raw) if number % 2 else Event("text", raw, piece))
        elif token.type == "text_special":
            events.append(Event("text", raw, token.content))
        elif "break" in kind:
            events.append(Event("break", raw, " ", kind))
        elif kind in ("open", "close"):
            events.append(Event(kind, raw, name=name))
        else:
            events.append(_kept_or_tag(raw))
    if at < len(content):
        return [Event("block", text[places[0][0] : places[-1][1]])]
    return list(_without_kept(events))


def _without_kept(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the events, and for an HTML element whose text is not translated a single one."""
    pairs, done = paired(events), 0
    for number, event in enumerate(events):
        if number < done:
            continue
        done = number + 1
        if event.kind == "keep":
            done = pairs.get(number, number) + 1
            event = Event("kept", "".join(each.raw for each in events[number:done]))
        yield event


def _kept_or_tag(raw: str) -> Event:
    """Return the event of code, a picture, a comment, or a tag of HTML."""
    _, kind, name = Reader(raw).pieces[1]  # code and pictures begin with text
    if name == "br":
        return Event("break", raw, " ")
    return Event("kept" if kind == "text" else kind, raw, name=name)
