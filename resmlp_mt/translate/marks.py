"""Tags and line ends in running text: taken out of its sentences, put back around the translation of the same words.

Code, pictures and comments become placeholders such as ``{0}`` in the sentences, which a ``Translator`` keeps.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count
from typing import NamedTuple

import numpy as np

from resmlp_mt.common.errors import UserError
from resmlp_mt.translate.alignment import WORD, character_alignment
from resmlp_mt.translate.entities import ENTITY
from resmlp_mt.translate.translator import Translation
from resmlp_mt.translate.words import UNSPACED

BLOCK = "\0"  # separates paragraphs in running text
DEEPEST = 100  # most nested tags
SPACE = re.compile(r"\s+(?=\S)(?!\d+[.)]|[-+*#>=~|:])")  # where a line may end: what follows begins no list or heading
BULLETS = "-–—•·▪‣◦*"  # in a class of a regular expression
MARK = re.compile(rf"^([{BULLETS}]\s+|>\s*)+")  # before an item, a speaker's words or a quotation: not in a sentence
ITEM = re.compile(rf"^(?:[{BULLETS}]|(?:\d{{1,3}}|[A-Za-z])[.)])\s+")  # what begins an item of a list
GLUED = re.compile(rf"[\0-\x7f]([\0-\x7f]|(?![{UNSPACED}])\w)")  # within a word, as in .NET, no sentence ends
WITHOUT_SPACES = re.compile(rf"[{UNSPACED}\u3000-\u303f\uff00-\uffef]")  # no space between sentences beside these
Escape = Callable[[str], str]


class Event(NamedTuple):
    """A piece of a document, in order.

    ``kind`` is text; open or close, a tag, where the tags of a pair have the same ``name``; break, the end of a line
    between words; kept, a part of a sentence that is not translated; block, what separates sentences. Readers of HTML
    also have keep, the opening tag of an element that is kept as a whole; ``Parts.add`` does not take it.
    """

    kind: str
    raw: str  # as it is written in the document
    text: str = ""  # as a reader sees it
    name: str = ""


@dataclass
class Tag:
    """A pair of tags around characters of a sentence, and the tags inside of it."""

    open: str
    close: str
    start: int
    end: int
    inner: list["Tag"] = field(default_factory=list)


@dataclass(frozen=True)
class Sentence:
    """A sentence without its tags and line ends, and the places of these."""

    text: str
    start: int  # in the running text
    end: int
    kept: dict[str, str]  # by placeholder, what it replaces
    escape: Escape
    tags: list[Tag] = field(default_factory=list)  # the outermost ones
    breaks: list[tuple[int, str]] = field(default_factory=list)  # line ends: how many characters precede, the raw text

    def put_back(self, translation: Translation) -> str:
        """Return the translation with tags around the same words, and line ends at the same relative positions."""
        text = translation.text
        marks = [(place, place, raw) for place, raw in self._placed_tags(translation)]
        spaces = [each.span() for each in SPACE.finditer(text)]
        for place, raw in self.breaks:
            wanted = place / len(self.text) * len(text)
            start, end = min(spaces, key=lambda space: abs(space[0] - wanted), default=(len(text), len(text)))
            if spaces or "<" in raw:  # a line end after all words would make an empty line
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
        """Yield the places of tags in the translation, in order: around the words that attend most to tagged words."""
        if not self.tags:
            return
        words = [each.span() for each in WORD.finditer(translation.text)]
        weights = np.array([1.0 if translation.text[start].isalnum() else 0.1 for start, _ in words])
        shares = character_alignment(self.text, translation)

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
    """A document: raw parts, which stay unchanged, and sentences of one language, which are translated."""

    def __init__(self, language: str = "en") -> None:
        self.parts: list[str | Sentence] = []
        self._language = language

    @property
    def sentences(self) -> list[str]:
        """The texts to translate; those that are ``tagged`` need alignments."""
        return [re.sub(r"[ \t\n\r\f]+", " ", part.text) for part in self.parts if isinstance(part, Sentence)]

    @property
    def tagged(self) -> list[bool]:
        """Whether each sentence has tags, which are put back by its alignment."""
        return [bool(part.tags) for part in self.parts if isinstance(part, Sentence)]

    def joined(self, translations: Sequence[Translation]) -> str:
        """Return the document with the translations of its sentences in their places."""
        left, out, before = iter(translations), list[str](), ""  # the translation right before
        for part in self.parts:
            if isinstance(part, str):
                out.append(part)
                before = ""
                continue
            translation = next(left)
            if before and translation.text and not WITHOUT_SPACES.search(before[-1] + translation.text[0]):
                out.append(" ")
            out.append(part.put_back(translation))
            before = translation.text
        return "".join(out)

    def add(self, events: Sequence[Event], escape: Escape = str) -> None:
        """Add the next events of the document; tags around whole sentences stay outside of them."""
        events = list(_with_placeholders(events))
        kept = {event.text: event.raw for event in events if event.kind == "kept"}
        text = "".join(event.text for event in events)
        places = list(accumulate((len(event.text) for event in events), initial=0))
        tags = {place for event, place in zip(events, places, strict=False) if event.kind in ("open", "close", "kept")}
        spans = sentence_spans(text, self._language, tags)
        sentences = [Sentence(text[start:end], start, end, kept, escape) for start, end in spans]
        outside = _split_tags(events, places, sentences)
        sentences.append(Sentence("", len(text), len(text), kept, escape))
        number = 0  # of the current sentence, or else the next one
        for at, event in enumerate(events):
            if at in outside:
                self.parts.append(event.raw)
            place, last = places[at], places[at + 1]
            if place == last and event.kind == "text" and not sentences[number].start < place < sentences[number].end:
                self.parts.append(event.raw)  # a <wbr> outside of sentences
            while place < last:
                sentence = sentences[number]
                if place < sentence.start:
                    stop = min(last, sentence.start)
                    self.parts.append(text[place:stop] if event.text == event.raw else event.raw)
                else:
                    stop = min(last, sentence.end)
                    if place == sentence.start:
                        self.parts.append(sentence)
                    if event.kind == "break":
                        sentence.breaks.append((place - sentence.start, event.raw))
                    number += stop == sentence.end
                place = stop


def sentence_spans(text: str, language: str, tags: Collection[int] = ()) -> list[tuple[int, int]]:
    """Return where sentences begin and end, without space around them; a part without letters joins the one before.

    ``tags``: places of tags, where a sentence may end although no space follows.
    """
    try:
        from sentencex import segment
    except ModuleNotFoundError as error:
        raise UserError("documents need sentencex, which finds the sentences: pip install sentencex") from error
    text = ENTITY.sub(lambda entity: re.sub(r"[.?!]", "_", entity[0]), text)
    text = re.sub(rf"(?<![^\s{BLOCK}])\.(?=\w)", "_", text)  # a word can begin with a point: .NET
    spans: list[tuple[int, int]] = []
    for paragraph in re.finditer(f"[^{BLOCK}]+", text):
        before, end = len(spans), paragraph.start()
        for part in filter(str.strip, segment(language, paragraph[0])):
            start = text.index(part.strip(), end)
            end = start + len(part.strip())
            if len(spans) > before and start == spans[-1][1] and start not in tags and GLUED.match(text, start - 1):
                spans[-1] = spans[-1][0], end
            elif any(map(str.isalpha, part)):
                spans.append((end - len(MARK.sub("", part.strip())), end))
            elif len(spans) > before:
                spans[-1] = spans[-1][0], end
    return spans


def _split_tags(events: Sequence[Event], places: Sequence[int], sentences: Sequence[Sentence]) -> set[int]:
    """Add tags that begin or end within a sentence to each sentence they touch; return the numbers of other tags."""
    outside: set[int] = set()
    nests: list[list[Tag]] = [[] for _ in sentences]
    for first, last in sorted(paired(events).items()):
        start, end = places[first], places[last]
        since = bisect_right(sentences, start, key=lambda sentence: sentence.end)
        touched = range(since, bisect_left(sentences, end, key=lambda sentence: sentence.start))
        if all(start <= sentences[number].start and sentences[number].end <= end for number in touched):
            outside |= {first, last}
            continue
        for number in touched:
            sentence, nest = sentences[number], nests[number]
            begin, stop = max(start - sentence.start, 0), min(end, sentence.end) - sentence.start
            tag = Tag(events[first].raw, events[last].raw, begin, stop)
            while nest and nest[-1].end <= begin:
                nest.pop()
            if len(nest) >= DEEPEST:
                raise UserError(f"more than {DEEPEST} tags within each other, at {tag.open:.40}")
            if sentence.text[begin:stop].strip():
                (nest[-1].inner if nest else sentence.tags).append(tag)
                nest.append(tag)
    return outside


def paired(events: Sequence[Event]) -> dict[int, int]:
    """Return the numbers of opening tags, each with that of its closing tag; tags without a partner are left out."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    names: Counter[str] = Counter()  # of those that are open
    for number, event in enumerate(events):
        if event.kind in ("open", "keep"):
            opened.append(number)
            names[event.name] += 1
        elif event.kind == "close" and names[event.name]:
            last = None
            while last is None or events[last].name != event.name:
                last = opened.pop()
                names[events[last].name] -= 1
            pairs[last] = number
    return pairs


def _with_placeholders(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the events, each with a text: a placeholder for what is kept.

    Tags without text between them, or without a partner, are kept; breaks with only space between them become one.
    """
    taken = set(re.findall(r"\{\d+\}", "".join(event.text for event in events)))
    names = (each for number in count() if (each := f"{{{number}}}") not in taken)
    pairs = paired(events)
    partners = pairs | {close: open for open, close in pairs.items()}
    texts = list(accumulate((event.kind == "block" or event.text.strip() != "" for event in events), initial=0))
    done = 0
    for number, (kind, raw, text, name) in enumerate(events):
        if number < done:
            continue
        done = number + 1
        if kind in ("open", "close") and texts[number] == texts[partners.get(number, number)]:
            done = partners.get(number, number) + 1
            kind = "kept"
        if kind == "break":
            while done < len(events) and events[done].kind in ("break", "text") and not events[done].text.strip():
                done += 1
            before = events[number - 1].text if number else ""
            if _end_sentence(before, events[number:done], events[done : done + 3]):
                kind = "block"
        text = next(names) if kind == "kept" else BLOCK if kind == "block" else text
        yield Event(kind, "".join(event.raw for event in events[number:done]), text, name)


def _end_sentence(before: str, breaks: Sequence[Event], following: Sequence[Event]) -> bool:
    """Whether adjacent breaks end a sentence: two ``<br>`` a paragraph's, one that of an item before the next item.

    A number begins an item behind another item or the end of a sentence, not in ``on<br>3. Oktober``.
    """
    tags = sum(each.name == "hardbreak" or each.raw.lower().startswith("<br") for each in breaks)
    text = "".join(each.text for each in following).lstrip()
    numbered = ITEM.match(text) and (ITEM.match(before.lstrip()) or before.rstrip().endswith((".", ":", "!", "?")))
    return tags > (0 if MARK.match(text) or numbered else 1)


def _best_run(gains: np.ndarray, words: Sequence[int]) -> list[int]:
    """Return the run of adjacent words with the largest sum of gains; [] if no gain is positive."""
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
