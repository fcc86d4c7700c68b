"""HTML, a fragment or a page: text is translated, everything else stays unchanged."""

import html
import re
from html.entities import html5
from html.parser import HTMLParser
from itertools import accumulate

from resmlp_mt.translate.marks import Event, Parts, paired
from resmlp_mt.translate.paragraphs import text_events
from resmlp_mt.translate.words import within_word


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


INLINE = _names(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark picture q rp rt ruby s small span strike "
    "strong sub sup time tt u var"
)
VOID = _names("area base br col embed hr img input link meta param source track wbr")
KEPT = _names("audio canvas code iframe kbd math noscript object pre samp script style svg template textarea video")
OPEN = INLINE | _names("dd dt li p td th")  # elements that the next block ends, if they have no end tag
REFERENCE = re.compile(f"(&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|{'|'.join(sorted(html5, reverse=True))}))")
WITHIN = (INLINE | VOID | KEPT | {""}) - {"hr", "pre"}  # elements within a sentence, "" is text; all others split it


class Reader(HTMLParser):
    """Finds where tags and texts begin: place, ``Event``'s kind, and name. Invalid or unknown HTML is text or kept."""

    def __init__(self, source: str):
        super().__init__(convert_charrefs=False)
        self.pieces = [(0, "text", "")]
        self._lines = list(accumulate((len(line) + 1 for line in source.split("\n")), initial=0))
        end = source.rfind(">") + 1  # no tag ends after it, and Python's parser may take quadratic time there
        self.feed(source[:end].replace("&", "+"))  # it would stop at "&#"; references are found in the text
        self.close()
        self.pieces.append((end, "text", ""))

    def _add(self, kind: str, name: str = "") -> None:
        line, column = self.getpos()
        self.pieces.append((self._lines[line - 1] + column, kind, name))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        keep = given.get("translate") == "no" or "notranslate" in (given.get("class") or "").split()
        self._add("kept" if tag in VOID else "keep" if keep or tag in KEPT else "open", tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("kept", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("close", tag)

    def handle_data(self, data: str) -> None:
        self._add("text")

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        return self.parse_bogus_comment(i, report)  # as browsers do; the inherited one raises AssertionError

    def handle_comment(self, data: str) -> None:
        self._add("kept")

    handle_decl = handle_pi = unknown_decl = handle_comment  # type: ignore[assignment]


def add_html(document: Parts, text: str) -> None:
    """Add HTML; attributes, comments, scripts, code, translate="no" and class="notranslate" stay unchanged."""
    events: list[Event] = []
    pieces = [*Reader(text).pieces, (len(text), "", "end")]
    pairs = paired([Event(kind, "", name=name) for _, kind, name in pieces])
    done = 0
    for number, (place, kind, name) in enumerate(pieces[:-1]):
        if number < done:
            continue
        done = number + 1
        if kind == "keep" and number in pairs:
            kind, done = "kept", pairs[number] + 1
        elif kind == "keep":  # its end tag is left out, or misplaced
            last, stops, end = ("close", name), name in OPEN, len(pieces)
            ends = (n for n in range(done, end) if pieces[n - 1][1:] == last or (stops and pieces[n][2] not in WITHIN))
            kind, done = "block", next(ends, end - 1)
        elif (kind, name) == ("open", "a") and pieces[number - 1][1:] == ("close", "a"):
            before, behind = pieces[number - 1][0], pieces[done][0]
            if within_word(text[max(0, before - 1) : before]) and within_word(text[behind : behind + 1]):
                events.append(Event("text", "", " "))  # two links are never parts of one word
        raw = text[place : pieces[done][0]]
        if kind == "text":
            for part in REFERENCE.split(raw):
                seen = html.unescape(part)
                events += text_events(part) if seen == part else [Event("text", part, seen)]
        elif name == "wbr":  # within a word, which the model gets whole; in a sentence it goes
            events.append(Event("text", raw, ""))
        elif name == "br":
            events.append(Event("break", raw, " "))
        else:
            events.append(Event(kind if name in WITHIN else "block", raw, name=name))
    events.append(Event("block", ""))
    document.add(events, lambda text: html.escape(text, quote=False))
