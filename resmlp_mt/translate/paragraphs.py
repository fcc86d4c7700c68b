"""Plain text and subtitles: line ends, blank lines, indentation and times stay unchanged."""

import re
from collections.abc import Sequence
from itertools import groupby, pairwise

from resmlp_mt.common.errors import UserError
from resmlp_mt.translate.marks import ITEM, Event, Parts

LINE = re.compile(r"[^\n]*\n|[^\n]+")
LINE_END = r"(?<![^\S\n])[^\S\n]*\n\s*"  # with the space around it
BREAK = re.compile(f"({LINE_END})")
QUOTE = "> \t"  # what a line begins with that an e-mail quotes
QUOTED_BREAK = re.compile(f"({LINE_END}[{QUOTE}]*)")
NARROWEST = 40  # characters that a paragraph's longest line must have, if its lines can be wrapped within sentences
TAB = re.compile(r"(?<=\S)( *\t[ \t]*)(?=\S)")  # between columns
TIMES = re.compile(r"\s*\d+:\d\d:\d\d[,.]\d+ *--> *\d+:\d\d:\d\d[,.]\d+")
CUE_TAG = re.compile(r"(</?\w[^<>]*>|\{\\[^{}]*\})")
BEFORE_TEXT = re.compile(r"(\s*[-–—]\s*(?=\S))?(\{\\[^{}]*\})*")  # a dash before a speaker's words, layout settings


def text_events(text: str, line_end: re.Pattern[str] = BREAK) -> list[Event]:
    """Return the events of a text: its parts and the line ends between them."""
    parts = [part for part in line_end.split(text) if part]
    return [Event("break", part, " ") if "\n" in part else Event("text", part, part) for part in parts]


def add_text(document: Parts, text: str) -> None:
    """Add plain text. A sentence ends with its line, unless its paragraph is wrapped, and before a tab."""
    events: list[Event] = []
    for (has_text, _), some in groupby(LINE.findall(text), _kind):
        lines = list(some)
        if not has_text:
            events.append(Event("block", "".join(lines)))
            continue
        follow = _goes_on([line.lstrip(QUOTE).strip() for line in lines])
        joined = ""  # lines whose sentences go on
        for line, goes_on in zip(lines, [*follow, False], strict=True):
            joined += line
            if not goes_on:
                for number, part in enumerate(TAB.split(joined)):
                    events += [Event("block", part)] if number % 2 else text_events(part, QUOTED_BREAK)
                events.append(Event("block", ""))
                joined = ""
    document.add(events)


def _kind(line: str) -> tuple[bool, int]:
    """Return whether a line has text, and how deep it is quoted."""
    content = line.lstrip(QUOTE)
    return content.strip() != "", line[: len(line) - len(content)].count(">")


def _goes_on(lines: Sequence[str]) -> list[bool]:
    """For each line of a paragraph but the last, return whether its sentence goes on in the next line."""
    width, pairs = max(map(len, lines)), list(pairwise(lines))
    # no line had room for the next line's first word
    wrapped = len(pairs) > 1 and all(len(line) + 1 + len(following.split()[0]) > width for line, following in pairs)
    return [
        width >= NARROWEST
        and (wrapped or following[0].islower())
        and not TAB.search(f"{ITEM.sub('', line)}\n{following}")
        for line, following in pairs
    ]


def add_subtitles(document: Parts, text: str) -> None:
    """Add a SubRip file (.srt). A sentence may span several lines of a cue, but not two cues."""
    lines = LINE.findall(text)
    events: list[Event] = []
    expected = "number"
    for number, line in enumerate([*lines, ""], 1):
        content = line.strip("\ufeff \t\r\n")
        if expected == "times":
            if not TIMES.match(line):
                raise UserError(f"line {number}: is not times such as 00:00:01,000 --> 00:00:02,500")
            expected = "text"
        elif expected == "text" and content:
            if TIMES.match(line):
                raise UserError(f"line {number}: is times within a subtitle: an empty line belongs before its number")
            before = (BEFORE_TEXT.match(line) or [""])[0]
            events += [Event("block", before)] if before else []
            events += _cue_events(line.removeprefix(before))
            continue
        else:
            if content and not content.isdecimal():
                raise UserError(f"line {number}: is not the number of a subtitle, which follows an empty line")
            expected = "times" if content else "number"
        events.append(Event("block", line))
    document.add(events)


def _cue_events(line: str) -> list[Event]:
    events: list[Event] = []
    for part in CUE_TAG.split(line):
        if not CUE_TAG.fullmatch(part):
            events += text_events(part)
        else:
            kind = "kept" if part[0] == "{" else "close" if part[1] == "/" else "open"
            events.append(Event(kind, part, name="".join(re.findall(r"\w+", part)[:1])))
    return events
