"""Markdown: text is translated; code, addresses, pictures, markers of lists and headings come back as they were."""

import html
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.translate.marks import Event, Parts
from resmlp_mt.translate.markup import VOID, Markup

LINE_END = re.compile(r"\r\n?|\n")
FRONT_MATTER = re.compile(r"\A---\r?\n.*?\n(---|\.\.\.)\r?\n", re.S)
INLINE = re.compile(
    r"""
    (?P<code>(?<!`)(?P<ticks>`+)(?!`)(?P<inside>.+?)(?<!`)(?P=ticks)(?!`))
    | (?P<picture>!\[[^\]]*\](\([^)]*\)|\[[^\]]*\])?) | (?P<note>\[\^[^\]]+\]:?|\A\[[ xX]\](?=\s))
    | (?P<comment><!--.*?-->) | (?P<address><[a-zA-Z][\w+.-]*(:|@)[^\s<>]*>|https?://[^\s<>()]*[^\s<>().,;:!?'"*_])
    | (?P<tag><(?P<slash>/?)(?P<name>[a-zA-Z][\w-]*)(\s[^<>]*)?>)
    | (?P<escaped>\\[!-/:-@[-`{-~]) | (?P<entity>&\#?\w+;)
    | (?P<bracket>\[) | (?P<end>\](\((\\.|[^()\\]|\([^()]*\))*\)|\[[^\]]*\])?)
    | (?P<emphasis>\*+|_+|~~) | (?P<break>\\?\n) | (?P<text>[^\W_]+|.)
    """,
    re.S | re.X,
)
SPECIAL = re.compile(r"[\\`*\[\]|]|(?<!\w)_|_(?!\w)|<(?=[a-zA-Z/!?])|&(?=#?\w+;)")


class Markdown(Parts):
    """CommonMark with tables. HTML in it is treated as ``Markup`` does, but not in lists and quotes."""

    def __init__(self, text: str, language: str = "en"):
        super().__init__()
        try:
            from markdown_it import MarkdownIt
        except ModuleNotFoundError as error:
            raise UserError("Markdown needs markdown-it-py: pip install markdown-it-py") from error
        front = FRONT_MATTER.match(text)
        done = front.end() if front else 0
        self.parts.append(text[:done])
        starts = [done, *(each.end() for each in LINE_END.finditer(text, done)), len(text)]
        found: dict[str, Any] = {}
        for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text[done:], found):
            if token.type == "html_block" and token.level == 0 and token.map:
                start, end = (starts[line] for line in token.map)
                self.parts += [text[done:start], *Markup(text[start:end], language).parts]
                done = end
            elif token.type == "inline" and token.map and token.content.strip():
                places = list(_places(token.content, text, starts[token.map[0] :], done))
                if not places:
                    continue
                content = "\n".join(text[start:end] for start, end in places)
                gaps = [text[end:start] for (_, end), (start, _) in pairwise(places)]
                self.parts.append(text[done : places[0][0]])
                self.add(inline_events(content, gaps, found.get("references", ())), language, _escape)
                done = places[-1][1]
        self.parts.append(text[done:])


def _places(content: str, text: str, starts: Sequence[int], done: int) -> Iterator[tuple[int, int]]:
    """Where each line of a paragraph, a heading or a table's cell stands; nothing from one that is not found on."""
    for number, line in enumerate(map(str.strip, content.split("\n"))):
        first, last = max(done, starts[number]), starts[number + 1]
        for spelled in line, line.replace("|", "\\|"):
            start = text.find(spelled, first, last) if text[first:last].count("|") else text.rfind(spelled, first, last)
            if start >= 0:
                yield start, start + len(spelled)
                break
        else:
            return


def inline_events(content: str, gaps: Sequence[str], references: Collection[str]) -> list[Event]:
    """The events of a paragraph, whose lines have these gaps between them."""
    left = iter(gaps)
    events: list[Event] = []
    opened: list[int] = []  # numbers of what a close may follow; what none follows is text
    for match in INLINE.finditer(content):
        raw = re.sub("\n", lambda _: next(left), match.group())
        before, after = content[match.start() - 1 : match.start()], content[match.end() : match.end() + 1]
        name = raw if match["emphasis"] else "["
        same = [number for number in opened if events[number].name == name]
        event = Event("text", raw, raw)
        if match["code"]:
            event = Event("kept", raw, " ".join(match["inside"].split()))
        elif match["address"]:
            event = Event("kept", raw, raw.strip("<>"))
        elif match["picture"] or match["note"] or match["comment"] or (match["tag"] and match["name"] in VOID):
            event = Event("point", raw)
        elif match["tag"]:
            event = Event("close" if match["slash"] else "open", raw, name=match["name"])
        elif match["escaped"]:
            event = Event("text", raw, raw[1:])
        elif match["entity"]:
            event = Event("text", raw, html.unescape(raw))
        elif match["break"]:
            event = Event("break", raw, " ")
        elif match["end"] or match["emphasis"]:
            inside = raw[0] == "_"
            closes = bool(same) and before.strip() != "" and not (inside and after.isalnum())
            if match["end"] and closes and raw in ("]", "[]"):
                label = "".join(each.raw for each in events[same[-1] + 1 :])
                raw = f"][{label}]" if " ".join(label.split()).upper() in references else ""
                closes = raw != ""
            if closes:
                event = Event("close", raw, name=name)
                while opened[-1] != same[-1]:
                    _as_text(events, opened.pop())
                opened.pop()
            elif match["emphasis"] and after.strip() and not (inside and before.isalnum()):
                opened.append(len(events))
                event = Event("open", raw, name=name)
        elif match["bracket"]:
            opened.append(len(events))
            event = Event("open", raw, name=name)
        events.append(event)
    for number in opened:
        _as_text(events, number)
    return events


def _as_text(events: list[Event], number: int) -> None:
    events[number] = Event("text", events[number].raw, events[number].raw)


def _escape(text: str) -> str:
    return SPECIAL.sub(r"\\\g<0>", text)
