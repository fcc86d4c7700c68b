"""HTML, a fragment or a page: text is translated, all else comes back as it was."""

import html
from html.parser import HTMLParser
from itertools import accumulate, pairwise
from typing import NamedTuple

from resmlp_mt.translate.marks import Event, Parts
from resmlp_mt.translate.paragraphs import text_events


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What stands within a sentence; all other elements split text.
INLINE = _names(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q rp rt ruby s small span strike strong "
    "sub sup time tt u var"
)
VOID = _names("area base br col embed img input link meta param source track wbr")
KEPT = _names("audio canvas code iframe kbd math noscript object samp script style svg template textarea video")


class _Piece(NamedTuple):
    """What begins at a place of HTML: kind is open, close, empty (a tag without an end tag), text or other."""

    place: int
    kind: str
    name: str = ""
    kept: bool = False


class _Reader(HTMLParser):
    """The pieces of HTML: what is not known or has errors is text or other."""

    def __init__(self, source: str):
        super().__init__(convert_charrefs=False)
        self.pieces = [_Piece(0, "text")]
        self._lines = list(accumulate((len(line) + 1 for line in source.split("\n")), initial=0))
        self.feed(source)
        self.close()

    def _add(self, kind: str, name: str = "", kept: bool = False) -> None:
        line, column = self.getpos()
        self.pieces.append(_Piece(self._lines[line - 1] + column, kind, name, kept))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        marked = given.get("translate") == "no" or "notranslate" in (given.get("class") or "").split()
        self._add("empty" if tag in VOID | {"hr"} else "open", tag, marked or tag in KEPT | {"pre"})

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("empty", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("close", tag)

    def handle_data(self, data: str) -> None:
        self._add("text")

    handle_charref = handle_entityref = handle_data  # type: ignore[assignment]

    def handle_comment(self, data: str) -> None:
        self._add("other")

    handle_decl = handle_pi = unknown_decl = handle_comment  # type: ignore[assignment]


def add_html(document: Parts, text: str) -> None:
    """Attributes, comments, scripts and code stay, and what is marked translate="no" or class="notranslate"."""
    events: list[Event] = []
    kept: list[str] = []  # the raw pieces of an element that is kept
    name, depth = "", 0  # of it
    pieces = [*_Reader(text).pieces, _Piece(len(text), "other")]
    for piece, following in pairwise(pieces):
        raw = text[piece.place : following.place]
        if not depth and piece.kind == "open" and piece.kept:
            name = piece.name
        if depth or name:
            depth += (piece.name == name) * {"open": 1, "close": -1}.get(piece.kind, 0)
            kept.append(raw)
            if not depth:
                events.append(_element("kept", "".join(kept), name))
                kept, name = [], ""
        elif piece.kind == "text":
            seen = html.unescape(raw)
            events += text_events(raw) if seen == raw else [Event("text", raw, seen)]
        elif piece.name == "br":
            events.append(Event("break", raw, " "))
        else:
            events.append(_element(piece.kind if piece.kind in ("open", "close") else "kept", raw, piece.name))
    events.append(Event("block", "".join(kept)))
    document.add(events, lambda text: html.escape(text, quote=False))


def _element(kind: str, raw: str, name: str) -> Event:
    """A tag or an element that is kept: it stands within a sentence or splits text."""
    within = not name or name in INLINE | VOID | KEPT
    return Event(kind if within else "block", raw, name=name)
