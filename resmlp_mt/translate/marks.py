"""Tags and line ends in running text: taken out of its sentences, put back around the translation of the same words."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

from resmlp_mt.common.errors import UserError
from resmlp_mt.translate.alignment import WORD, attended, letters_of
from resmlp_mt.translate.translator import Translation

DEEPEST = 100  # tags within each other
LONGEST_KEPT = 30  # characters of code in a sentence that the model is given; longer code would be most of the sentence
BEFORE_WORD = re.compile(r"\s+(?=\S)(?!\d+[.)]|[-+*#>=~|:])")  # that would not begin a list where a line begins
BLANKS = re.compile(r"[ \t\n\r\f]+")
Escape = Callable[[str], str]


@dataclass(frozen=True)
class Event:
    """What follows in running text.

    ``kind`` is one of text; open and close, of tags that ``name`` pairs; point, which has no text; break, a line's end
    between words; kept, such as code, which a reader sees as ``text`` and which is not translated.
    """

    kind: str
    raw: str  # as it stands in the document
    text: str = ""  # as a reader sees it
    name: str = ""


@dataclass
class Mark:
    """What stands in a sentence, from one of its letters to another: all but white space are letters here."""

    kind: str
    raw: str
    start: int
    end: int
    close: str = ""
    before: str = " "  # what stands before and behind what has no text
    behind: str = " "
    inner: list["Mark"] = field(default_factory=list)

    @property
    def glued(self) -> bool:
        """Whether it stands behind a word without white space between."""
        return not self.before.isspace()


@dataclass(frozen=True)
class Sentence:
    """A sentence without its marks, and the marks."""

    text: str
    marks: Mark  # one that holds all
    breaks: list[tuple[int, str]]  # line ends: the letters before, and what stands there
    escape: Escape

    def put_back(self, translation: Translation) -> str:
        """The translation with the marks in it."""
        return _Placing(self, translation).written()


class Parts:
    """A document: raw parts, which stay as they are, and sentences."""

    def __init__(self) -> None:
        self.parts: list[str | Sentence] = []

    @property
    def sentences(self) -> list[str]:
        """What is to be translated, with alignments where ``marked``."""
        return [part.text for part in self.parts if isinstance(part, Sentence)]

    @property
    def marked(self) -> list[bool]:
        """Of each sentence whether there are marks in it for which its alignment is needed."""
        return [bool(part.marks.inner) for part in self.parts if isinstance(part, Sentence)]

    def joined(self, translations: Sequence[Translation]) -> str:
        """The document with the translations of its sentences in their places."""
        left = iter(translations)
        return "".join(part if isinstance(part, str) else part.put_back(next(left)) for part in self.parts)

    def add(self, events: Sequence[Event], language: str, escape: Escape = str) -> None:
        """Add running text."""
        self.parts += _Splitting(events, language, escape).parts


def sentence_spans(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Where the sentences of a paragraph begin and end, without white space around them."""
    try:
        from sentencex import segment
    except ModuleNotFoundError as error:
        raise UserError("documents need sentencex, which finds the sentences: pip install sentencex") from error
    end = 0
    for part in segment(language, text):
        if sentence := part.strip():
            start = text.index(sentence, end)
            end = start + len(sentence)
            yield start, end


def balanced(events: Sequence[Event]) -> tuple[list[Event], list[int]]:
    """The events with a close for each open, innermost first, and no other close; and the number of each one's partner.

    The partner of an open is its close, that of a close its open, that of all else itself.
    """
    found: list[Event] = []
    partners: list[int] = []
    opened: list[int] = []

    def close(name: str, raw: str) -> None:
        partners.append(opened.pop())
        partners[partners[-1]] = len(found)
        found.append(Event("close", raw, name=name))

    for event in events:
        if event.kind != "close":
            if event.kind == "open":
                opened.append(len(found))
                if len(opened) > DEEPEST:
                    raise UserError(f"more than {DEEPEST} tags within each other, at {event.raw:.40}")
            partners.append(len(found))
            found.append(event)
        elif event.name in (found[number].name for number in opened):
            while (name := found[opened[-1]].name) != event.name:
                close(name, f"</{name}>")
            close(event.name, event.raw)
    while opened:
        name = found[opened[-1]].name
        close(name, f"</{name}>")
    return found, partners


class _Splitting:
    """Running text to raw parts and sentences, in one walk over its events."""

    def __init__(self, events: Sequence[Event], language: str, escape: Escape):
        self.parts: list[str | Sentence] = []
        self._escape = escape
        self._events, self._partners = balanced(
            [
                replace(each, text="") if each.kind == "kept" and len(each.text) > LONGEST_KEPT else each
                for each in events
            ]
        )
        self._places = list(accumulate((len(event.text) for event in self._events), initial=0))
        self._text = "".join(event.text for event in self._events)
        self._letters = list(accumulate((not character.isspace() for character in self._text), initial=0))
        outside = "".join(len(event.text) * "0" if event.kind == "kept" else event.text for event in self._events)
        spans = sentence_spans(outside, language)
        self._spans = [span for span in spans if any(map(str.isalpha, outside[slice(*span)]))]
        self._span = 0  # the sentence that we are in, or that comes next
        self._nest: list[Mark] = []  # the marks that are open in it, the outermost holds all; empty: before it
        self._breaks: list[tuple[int, str]] = []  # in it
        self._shared: list[tuple[str, str]] = []  # open tags around parts of sentences: each has its own
        self._walk()

    def _start_and_end(self) -> tuple[int, int]:
        return self._spans[self._span] if self._span < len(self._spans) else (len(self._text), len(self._text))

    def _between_sentences(self, place: int) -> bool:
        number = bisect_left(self._spans, (place, 0)) - 1
        return number < 0 or self._spans[number][1] <= place

    def _walk(self) -> None:
        for number, (event, partner) in enumerate(zip(self._events, self._partners, strict=True)):
            place = self._places[number]
            holds_sentences = self._between_sentences(place) and self._between_sentences(self._places[partner])
            if event.text:
                self._take(event, place)
            elif holds_sentences:
                self.parts.append(event.raw)
            elif event.kind == "open":
                self._shared.append((event.raw, self._events[partner].raw))
                if self._nest:
                    self._open(*self._shared[-1], place)
            elif event.kind == "close":
                self._shared.pop()
                if self._nest:
                    self._nest.pop().end = self._letter(place)
            else:
                where, beside = self._letter(place), self._text[place - 1 : place + 1]
                self._nest[-1].inner.append(Mark(event.kind, event.raw, where, where, "", *beside))

    def _letter(self, place: int) -> int:
        return self._letters[place] - self._letters[self._start_and_end()[0]]

    def _open(self, raw: str, close: str, place: int) -> None:
        mark = Mark("tag", raw, self._letter(place), 0, close)
        self._nest[-1].inner.append(mark)
        self._nest.append(mark)

    def _take(self, event: Event, place: int) -> None:
        """Text, which may end sentences and begin others."""
        first, last = place, place + len(event.text)
        while place < last:
            start, end = self._start_and_end()
            if not self._nest and (place < start or start == end):
                stop = last if start == end else min(start, last)
                whole = (place, stop) == (first, last)
                raw = event.raw if whole else self._escape(self._text[place:stop])
                if raw.strip():  # a number by itself is no sentence, but may be in a tag
                    raw = "".join([*(tag for tag, _ in self._shared), raw, *(tag for _, tag in self._shared[::-1])])
                self.parts.append(raw)
            else:
                if not self._nest:
                    self._nest = [Mark("all", "", 0, 0)]
                    for shared in self._shared:
                        self._open(*shared, place)
                stop = min(end, last)
                if event.kind == "break":
                    self._breaks.append((self._letter(place), event.raw))
                elif event.kind == "kept":
                    mark = Mark(event.kind, event.raw, self._letter(place), self._letter(stop))
                    self._nest[-1].inner.append(mark)
                if stop == end:
                    self._end()
            place = stop

    def _end(self) -> None:
        start, end = self._start_and_end()
        for mark in self._nest:
            mark.end = self._letter(end)
        text = BLANKS.sub(" ", self._text[start:end])
        self.parts.append(Sentence(text, self._nest[0], self._breaks, self._escape))
        self._nest, self._breaks = [], []
        self._span += 1


class _Placing:
    """Where the marks of a sentence go in its translation."""

    def __init__(self, sentence: Sentence, translation: Translation):
        self._text, self._escape, self._all = translation.text, sentence.escape, sentence.marks
        self._words = [each.span() for each in WORD.finditer(self._text)]
        self._weights = np.array([1.0 if self._text[start].isalnum() else 0.1 for start, _ in self._words])
        if sentence.marks.inner:
            self._attended = attended(sentence.text, translation.text, translation)
        self._behind = ""
        self._breaks = self._placed_breaks(sentence)

    def written(self) -> str:
        return self._written(self._all, 0, len(self._words), 0, len(self._text)) + self._behind

    def _placed_breaks(self, sentence: Sentence) -> dict[int, tuple[int, str]]:
        """Where lines end: at the same share of the text, before a word that begins no list or heading."""
        found: dict[int, tuple[int, str]] = {}
        free = [(len(letters_of(self._text[: each.start()])), each) for each in BEFORE_WORD.finditer(self._text)]
        for place, raw in sentence.breaks:
            wanted = place / sentence.marks.end * len(letters_of(self._text))
            if free:
                letters, best = min(free, key=lambda each: abs(each[0] - wanted))
                free = [each for each in free if each[0] > letters]
                found[best.start()] = best.end(), raw
            elif "<" in raw:  # a tag is not lost where there are too few words
                self._behind += raw
        return found

    def _written(self, mark: Mark, low: int, high: int, start: int, end: int) -> str:
        """What is inside a mark that has the words from ``low`` to ``high``, and the text from ``start`` to ``end``."""
        placed: list[tuple[int, int, Mark]] = []
        for each in mark.inner:
            first, last = self._words_of(each, mark, low, high, placed)
            placed.append((first, last, each))
        out = []
        for first, last, each in sorted(placed, key=lambda one: one[:2]):
            if first < last:
                begin, stop = self._words[first][0], self._words[last - 1][1]
            elif each.glued and low < first:
                begin = stop = self._words[first - 1][1]
            else:
                begin = stop = end if first == high else self._words[first][0]
            out.append(self._plain(start, begin))
            if each.kind == "tag":
                out.append(f"{each.raw}{self._written(each, first, last, begin, stop)}{each.close}")
            elif first < last:
                out += [each.raw, *(raw for place, (_, raw) in self._breaks.items() if begin <= place < stop)]
            else:
                before = " " if not each.glued and self._text[begin - 1 : begin].strip() else ""
                behind = " " if each.behind.isspace() and self._text[begin : begin + 1].isalnum() else ""
                out.append(f"{before}{each.raw}{behind}")
            start = stop
        return "".join([*out, self._plain(start, end)])

    def _plain(self, start: int, end: int) -> str:
        out = []
        for place in sorted(self._breaks):
            if start <= place < end:
                out += [self._escape(self._text[start:place]), self._breaks[place][1]]
                start = self._breaks[place][0]
        return "".join([*out, self._escape(self._text[start:end])])

    def _words_of(
        self, mark: Mark, outer: Mark, low: int, high: int, placed: Sequence[tuple[int, int, Mark]]
    ) -> tuple[int, int]:
        """The first word of a mark and the one behind its last: those that attend to its words, and no sibling's."""
        taken = {word for first, last, _ in placed for word in range(first, last)}
        if mark.start < mark.end:
            if (mark.start, mark.end) == (outer.start, outer.end) and not taken and mark.kind == "tag":
                return low, high
            inside = self._attended[:, mark.end] - self._attended[:, mark.start]
            free = [word for word in range(low, high) if word not in taken]
            found = _best_run((inside - 0.5) * self._weights, free)
            if found is None and free and mark.kind == "tag":
                best = max(free, key=lambda word: float(inside[word]))
                found = best, best + 1
            if found is not None:
                return found
        left = 2 * self._attended[:, mark.start] - 1  # above 0: the word belongs before the mark
        room = [place for place in range(low, high + 1) if mark.glued or self._has_room(place)]
        places = [place for place in room if not {place - 1, place} <= taken]
        best = max(places or [high], key=lambda place: float(left[low:place].sum() - left[place:high].sum()))
        return best, best

    def _has_room(self, place: int) -> bool:
        """Whether white space stands before a word, or nothing."""
        return place in (0, len(self._words)) or self._words[place - 1][1] < self._words[place][0]


def _best_run(gains: np.ndarray, words: Sequence[int]) -> tuple[int, int] | None:
    """The run of neighbours among these words with the largest sum of gains; None if none gains."""
    best, found, total, start = 0.0, None, 0.0, 0
    before = -2
    for word in words:
        if total <= 0 or word != before + 1:
            total, start = 0.0, word
        total += float(gains[word])
        if total > best:
            best, found = total, (start, word + 1)
        before = word
    return found
