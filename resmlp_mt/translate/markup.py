"""HTML, a fragment or a page: text is translated, all else comes back as it was."""

import html
import re
from html.parser import HTMLParser
from itertools import accumulate

from resmlp_mt.translate.marks import Event, Parts
from resmlp_mt.translate.paragraphs import text_events


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What stands within a sentence; all other elements split text.
INLINE = _names(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q rp rt ruby s small span strike strong "
    "sub sup time tt u var"
)
VOID = _names("area base br col embed hr img input link meta param source track wbr")
CODE = _names("code kbd samp")  # kept, and seen by who reads the sentence
UNSEEN = _names("audio canvas iframe math noscript object script style svg template textarea video")
KEPT_BLOCKS = _names("pre")


class _Reader(HTMLParser):
    """The tags and texts of HTML and where they begin: what is not known or has errors is a text or a point."""

    def __init__(self, source: str):
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[int, str, str, bool]] = []  # place, kind, name, whether it is not to be translated
        self._lines = list(accumulate((len(line) + 1 for line in source.split("\n")), initial=0))
        self.feed(source)
        self.close()

    def _note(self, kind: str, name: str = "", kept: bool = False) -> None:
        line, column = self.getpos()
        self.found.append((self._lines[line - 1] + column, kind, name, kept))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        kept = given.get("translate") == "no" or "notranslate" in (given.get("class") or "").split()
        self._note("empty" if tag in VOID else "open", tag, kept)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note("empty", tag)

    def handle_endtag(self, tag: str) -> None:
        self._note("close", tag)

    def handle_data(self, data: str) -> None:
        self._note("text")

    def handle_charref(self, name: str) -> None:
        self._note("text")

    def handle_entityref(self, name: str) -> None:
        self._note("text")

    def handle_comment(self, data: str) -> None:
        self._note("point")

    def handle_decl(self, decl: str) -> None:
        self._note("point")

    handle_pi = unknown_decl = handle_comment


class Markup(Parts):
    """HTML. Attributes, comments, scripts and code stay, and what is marked translate="no" or class="notranslate"."""

    def __init__(self, text: str, language: str = "en"):
        super().__init__()
        found = _Reader(text).found
        if found and found[0][0] > 0:  # what begins no tag after all
            found.insert(0, (0, "text", "", False))
        ends = [place for place, *_ in found[1:]] + [len(text)]
        around_blocks = _around_blocks(found)
        running: list[Event] = []
        number = 0
        while number < len(found):
            place, kind, name, kept = found[number]
            last = number
            if kind == "open" and (kept or name in CODE | UNSEEN | KEPT_BLOCKS):
                last = _end_of(found, number)
                kind = "kept"
            raw = text[place : ends[last]]
            inline = _is_inline(name) and not {number, last} & around_blocks
            number = last + 1
            if kind == "text":
                seen = html.unescape(raw)
                running += text_events(raw) if seen == raw else [Event("text", raw, seen)]
            elif kind == "point":
                running.append(Event("point", raw))
            elif not inline:
                self.add(running, language, _escape)
                self.parts.append(raw)
                running = []
            elif kind == "kept" and name not in UNSEEN:
                seen = " ".join(html.unescape(re.sub(r"<[^>]*>", "", raw)).split())
                running.append(Event("kept", raw, seen))
            elif kind == "empty" and name == "br":
                running.append(Event("break", raw, " "))
            else:
                running.append(Event(kind if kind in ("open", "close") else "point", raw, name=name))
        self.add(running, language, _escape)


def _is_inline(name: str) -> bool:
    return name in INLINE | CODE | UNSEEN | VOID and name != "hr"


def _around_blocks(found: list[tuple[int, str, str, bool]]) -> set[int]:
    """The numbers of tags that stand in text elsewhere and here are around what splits text, such as a link's."""
    around: set[int] = set()
    opened: list[int] = []
    block = -1  # the last that has begun
    for number, (_, kind, name, _) in enumerate(found):
        if kind in ("open", "empty") and not _is_inline(name):
            block = number
        if kind == "open":
            opened.append(number)
        elif kind == "close":
            place = next((place for place in reversed(range(len(opened))) if found[opened[place]][2] == name), None)
            if place is not None:
                if opened[place] < block:
                    around |= {opened[place], number}
                del opened[place:]
    return around


def _end_of(found: list[tuple[int, str, str, bool]], number: int) -> int:
    """The last event of the element that begins with this one; without an end tag, it ends before the next like it."""
    name, depth = found[number][2], 0
    for other in range(number, len(found)):
        if found[other][2] == name:
            depth += {"open": 1, "close": -1}.get(found[other][1], 0)
        if depth == 0:
            return other
    alike = (other - 1 for other in range(number + 1, len(found)) if found[other][1:3] == ("open", name))
    return next(alike, len(found) - 1)


def _escape(text: str) -> str:
    return html.escape(text, quote=False)
