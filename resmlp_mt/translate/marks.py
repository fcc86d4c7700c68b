"""Tags and line ends in running text: taken out of its sentences, put back around the translation of the same words.

Code, pictures and comments are placeholders such as ``{0}`` in the sentences, which a ``Translator`` keeps.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count, pairwise

import numpy as np

from resmlp_mt.common.errors import UserError
from resmlp_mt.translate.alignment import WORD, attended
from resmlp_mt.translate.translator import Translation

DEEPEST = 100  # tags within each other
SPACE = re.compile(r"\s+(?=\S)(?!\d+[.)]|[-+*#>=~|:])")  # where a line may end: what follows begins no list or heading
Escape = Callable[[str], str]


@dataclass(frozen=True)
class Event:
    """What follows in a document.

    ``kind`` is one of text; open and close, of tags with the same ``name``; break, the end of a line between words;
    kept, what stands within a sentence and is not translated; block, what stands between sentences.
    """

    kind: str
    raw: str  # as it stands in the document
    text: str = ""  # as a reader sees it
    name: str = ""


@dataclass
class Tag:
    """A tag around characters of a sentence, with those inside of it."""

    open: str
    close: str
    start: int
    end: int
    inner: list["Tag"] = field(default_factory=list)


@dataclass(frozen=True)
class Sentence:
    """A sentence without what is marked in it, and that."""

    text: str
    tags: list[Tag]  # the outer ones
    breaks: list[tuple[int, str]]  # line ends: the characters before, and what stands there
    kept: dict[str, str]  # what placeholders stand for
    escape: Escape

    def put_back(self, translation: Translation) -> str:
        """The translation with tags around the same words, and lines that end at the same share of the text."""
        text = translation.text
        marks = [(place, place, raw) for place, raw in self._placed_tags(translation)]
        spaces = [each.span() for each in SPACE.finditer(text)]
        for place, raw in self.breaks:
            wanted = place / len(self.text) * len(text)
            start, end = min(spaces, key=lambda space: abs(space[0] - wanted), default=(len(text), len(text)))
            marks.append((start, end, raw))
            spaces = [space for space in spaces if space[0] > start]
        out, done = [], 0
        for start, end, raw in sorted(marks, key=lambda mark: mark[0]):
            out += [self._written(text[done:start]), raw]
            done = end
        return "".join([*out, self._written(text[done:])])

    def _written(self, text: str) -> str:
        return re.sub(r"\{\d+\}", lambda name: self.kept.get(name[0], name[0]), self.escape(text))

    def _placed_tags(self, translation: Translation) -> Iterator[tuple[int, str]]:
        """The places of tags in the translation, in order: around the words that attend most to theirs."""
        if not self.tags:
            return
        words = [each.span() for each in WORD.finditer(translation.text)]
        weights = np.array([1.0 if translation.text[start].isalnum() else 0.1 for start, _ in words])
        shares = attended(self.text, translation)

        def placed(tags: Sequence[Tag], free: Sequence[int], end: int) -> Iterator[tuple[int, str]]:
            runs: list[tuple[list[int], Tag]] = []
            for tag in tags:
                inside = shares[:, tag.end] - shares[:, tag.start]
                run = _best_run((inside - 0.5) * weights, free)
                if not run and free:
                    run = [max(free, key=inside.__getitem__)]
                free = [word for word in free if word not in run]
                runs.append((run, tag))
            for run, tag in sorted(runs, key=lambda each: each[0] or [len(words)]):
                start, stop = (words[run[0]][0], words[run[-1]][1]) if run else (end, end)
                yield start, tag.open
                yield from placed(tag.inner, run, stop)
                yield stop, tag.close

        yield from placed(self.tags, range(len(words)), len(translation.text))


class Parts:
    """A document: raw parts, which stay as they are, and sentences, which are of one language."""

    def __init__(self, language: str = "en") -> None:
        self.parts: list[str | Sentence] = []
        self._language = language

    @property
    def _all(self) -> list[Sentence]:
        return [part for part in self.parts if isinstance(part, Sentence)]

    @property
    def sentences(self) -> list[str]:
        """What is to be translated, with alignments where ``marked``."""
        return [re.sub(r"[ \t\n\r\f]+", " ", sentence.text) for sentence in self._all]

    @property
    def marked(self) -> list[bool]:
        """Of each sentence whether there are tags in it, for which its alignment is needed."""
        return [bool(sentence.tags) for sentence in self._all]

    def joined(self, translations: Sequence[Translation]) -> str:
        """The document with the translations of its sentences in their places."""
        left = iter(translations)
        return "".join(part if isinstance(part, str) else part.put_back(next(left)) for part in self.parts)

    def add(self, events: Sequence[Event], escape: Escape = str) -> None:
        """Add what follows in the document; tags around whole sentences stay outside of them."""
        raw = "".join(event.raw for event in events)
        names = (name for number in count() if (name := f"{{{number}}}") not in raw)
        events = [
            Event(event.kind, event.raw, next(names)) if event.kind == "kept" else event for event in _simple(events)
        ]
        text = "".join(event.text for event in events)
        places = list(accumulate((len(event.text) for event in events), initial=0))
        blocks = [place for event, place in zip(events, places, strict=False) if event.kind == "block"]
        spans = [
            (start + first, start + last)
            for start, end in pairwise([0, *blocks, len(text)])
            for first, last in sentence_spans(text[start:end], self._language)
            if any(map(str.isalpha, text[start + first : start + last]))
        ]
        kept = {event.text: event.raw for event in events if event.kind == "kept"}
        sentences = [Sentence(text[start:end], [], [], kept, escape) for start, end in spans]
        outside = self._add_tags(events, places, spans, sentences)
        number = 0  # of the sentence that we are in, or that comes next
        for at, event in enumerate(events):
            place, end_of_event = places[at], places[at + 1]
            if not event.text and (event.kind == "block" or at in outside):
                self.parts.append(event.raw)
            while place < end_of_event:
                start, end = spans[number] if number < len(spans) else (len(text), len(text))
                stop = min(end_of_event, start if place < start else end)
                if place < start:
                    self.parts.append(text[place:stop] if event.text == event.raw else event.raw)
                elif place == start:
                    self.parts.append(sentences[number])
                if place >= start and event.kind == "break":
                    sentences[number].breaks.append((place - start, event.raw))
                number += stop == end
                place = stop

    @staticmethod
    def _add_tags(
        events: Sequence[Event],
        places: Sequence[int],
        spans: Sequence[tuple[int, int]],
        sentences: Sequence[Sentence],
    ) -> set[int]:
        """Give each sentence its part of the tags that begin or end in one; the numbers of the other tags' events."""
        outside: set[int] = set()
        nests: list[list[Tag]] = [[] for _ in sentences]
        for first, last in sorted(_pairs(events).items()):
            start, end = places[first], places[last]
            # the sentences that the tag touches
            touched = range(
                bisect_right(spans, start, key=lambda span: span[1]), bisect_left(spans, end, key=lambda span: span[0])
            )
            if all(start <= spans[number][0] and spans[number][1] <= end for number in touched):
                outside |= {first, last}
                continue
            for number in touched:
                begin, stop = spans[number]
                tag = Tag(events[first].raw, events[last].raw, max(start, begin) - begin, min(end, stop) - begin)
                nest = nests[number]
                while nest and nest[-1].end <= tag.start:
                    nest.pop()
                if len(nest) >= DEEPEST:
                    raise UserError(f"more than {DEEPEST} tags within each other, at {tag.open:.40}")
                if sentences[number].text[tag.start : tag.end].strip():
                    (nest[-1].inner if nest else sentences[number].tags).append(tag)
                    nest.append(tag)
        return outside


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


def _pairs(events: Sequence[Event]) -> dict[int, int]:
    """The numbers of tags that open, each with that of the one that closes it; those with no such tag are left out."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for number, event in enumerate(events):
        if event.kind == "open":
            opened.append(number)
        elif event.kind == "close":
            same = [depth for depth, other in enumerate(opened) if events[other].name == event.name]
            if same:
                pairs[opened[same[-1]]] = number
                del opened[same[-1] :]
    return pairs


def _simple(events: Sequence[Event]) -> Iterator[Event]:
    """The events, but tags without a word between them, or without a partner, are kept; breaks side by side are one."""
    pairs = _pairs(events)
    closes = set(pairs.values())
    holds = [event.kind == "block" or any(map(str.isalnum, event.text)) for event in events]
    words = list(accumulate(holds, initial=0))
    done = 0
    for number, event in enumerate(events):
        if number < done:
            continue
        done = number + 1
        kind = event.kind
        if kind == "open" and words[number] == words[pairs.get(number, number)]:
            done = pairs.get(number, number) + 1
            kind = "kept"
        elif kind == "close" and number not in closes:
            kind = "kept"
        elif kind == "break":
            while done < len(events) and events[done].kind == "break":
                done += 1
        yield Event(kind, "".join(each.raw for each in events[number:done]), event.text, event.name)


def _best_run(gains: np.ndarray, words: Sequence[int]) -> list[int]:
    """The run of neighbours among these words with the largest sum of gains; empty if none gains."""
    best, found, total, start = 0.0, list[int](), 0.0, 0
    before = -2
    for word in words:
        if total <= 0 or word != before + 1:
            total, start = 0.0, word
        total += float(gains[word])
        if total > best:
            best, found = total, list(range(start, word + 1))
        before = word
    return found
