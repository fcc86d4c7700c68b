"""Running text: its sentences are translated; line ends, blank lines and indentation come back as they were."""

import re
from collections.abc import Sequence
from itertools import pairwise

from resmlp_mt.translate.marks import Event, Parts

LINE = re.compile(r"[^\n]*\n|[^\n]+")
BREAK = re.compile(r"([^\S\n]*\n\s*)")
NARROWEST = 40  # characters of a paragraph's longest line, where its lines may have been ended within sentences


class Paragraphs(Parts):
    """Plain text. A sentence ends with its line, unless its paragraph is wrapped."""

    def __init__(self, text: str, language: str = "en"):
        super().__init__()
        paragraph: list[str] = []
        for line in [*LINE.findall(text), ""]:
            if line.strip():
                paragraph.append(line)
                continue
            goes_on = [*_goes_on([each.strip() for each in paragraph]), False]
            running = ""
            for each, more in zip(paragraph, goes_on, strict=False):
                running += each
                if not more:
                    self.add(text_events(running), language)
                    running = ""
            self.parts.append(line)
            paragraph = []


def _goes_on(lines: Sequence[str]) -> list[bool]:
    """Whether the sentence goes on behind each line of a paragraph but the last."""
    width = max(map(len, lines), default=0)
    filled = [len(line) + 1 + len(following.split()[0]) > width for line, following in pairwise(lines)]
    wrapped = all(filled) and len(lines) > 2
    return [width >= NARROWEST and (wrapped or following[0].islower()) for following in lines[1:]]


def text_events(text: str) -> list[Event]:
    """Text and the line ends in it."""
    parts = [part for part in BREAK.split(text) if part]
    return [Event("break", part, " ") if "\n" in part else Event("text", part, part) for part in parts]
