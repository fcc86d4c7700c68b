"""How many tags of HTML come back around the right words, beside simple rules? In sentences of a test set.

    python examples/translating/markup.py FOLDER --test test.en --train train.en train.de --json markup.json

Each sentence gets one to three tags around one to three words, fixed at random; some stand in others. What is right is
told by a dictionary of the training text, not by the model: by IBM Model 1, a target word goes with the source word
that is its likeliest, if it is among the likeliest 8 of that one. A pair of words is known in a sentence if each of
them goes with no other word there. A tag is right if it is around the partners of all its known words, and of no other.
Tags without a known word are not counted. The rules that it is compared with put a tag around words with the same
numbers, or at the same relative place.
"""

import argparse
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from lxml import etree
from sacrebleu import corpus_bleu

from resmlp_mt import Translator
from resmlp_mt.common.files import read_lines, read_parallel, write_json
from resmlp_mt.lab.machine import commit, describe, now
from resmlp_mt.translate.markup import Markup
from resmlp_mt.translate.shortlist import lexicon

WORD = re.compile(r"\w+(?:[-']\w+)*|[^\w\s]")
LIKELIEST = 8
# Words without a translation of their own, for which the dictionary is often wrong in a sentence.
FUNCTION_WORDS = set(
    "a an the this that these those of in on at to into onto with by for from up down out off over under near around "
    "as and or but while who which it its he she his her they their is are was were be being been has have do does "
    "some all one".split()
)


class Tag(NamedTuple):
    """Around the words from ``first`` to before ``last``."""

    first: int
    last: int


def dictionary(train: Sequence[Path]) -> set[tuple[str, str]]:
    """Pairs of words that go together."""
    numbers: tuple[dict[str, int], dict[str, int]] = ({}, {})
    pairs = []
    for lines in read_parallel(train):
        sides = [
            [known.setdefault(word.lower(), len(known)) for word in WORD.findall(line)]
            for line, known in zip(lines, numbers, strict=True)
        ]
        pairs.append((sides[0], sides[1]))
    words = [list(known) for known in numbers]
    forth = lexicon(pairs, LIKELIEST)
    back = lexicon([(target, source) for source, target in pairs], 1)
    return {
        (words[0][source], words[1][target]) for target, (source,) in back.items() if target in forth.get(source, ())
    }


def known_pairs(source: Sequence[str], target: Sequence[str], goes: set[tuple[str, str]]) -> dict[int, int]:
    """The numbers of words of a sentence and of their partners."""
    links = [
        (first, second)
        for first, word in enumerate(source)
        for second, other in enumerate(target)
        if (word.lower(), other.lower()) in goes and any(map(str.isalnum, word))
    ]
    firsts, seconds = [first for first, _ in links], [second for _, second in links]
    return {first: second for first, second in links if firsts.count(first) == seconds.count(second) == 1}


def chosen(words: int, random: Random) -> list[Tag]:
    """One to three tags, each beside the others or in one of them, outer ones first."""
    found: list[Tag] = []
    for _ in range(random.randint(1, 3)):
        first = random.randrange(words)
        tag = Tag(first, min(words, first + random.randint(1, 3)))
        crosses = any(tag.first < other.last and other.first < tag.last for other in found)
        inside = any(other.first <= tag.first and tag.last <= other.last and tag != other for other in found)
        if not crosses or inside:
            found.append(tag)
    return found


def tagged(sentence: str, tags: Sequence[Tag]) -> str:
    """The sentence as HTML."""
    spans = [each.span() for each in WORD.finditer(sentence)]
    marks = []
    for number, (first, last) in enumerate(tags):
        marks.append((spans[first][0], 1, number, f'<b id="{number}">'))
        marks.append((spans[last - 1][1], 0, -number, "</b>"))
    out, start = [], 0
    for place, _, _, mark in sorted(marks):
        out += [escaped(sentence[start:place]), mark]
        start = place
    return f"<p>{''.join([*out, escaped(sentence[start:])])}</p>"


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def read_tags(written: str) -> tuple[str, dict[int, Tag]]:
    """The text of what came out, and each tag's words; lxml's XML parser takes nothing that is not well-formed."""
    root = etree.fromstring(written)
    text = "".join(root.itertext())
    starts = [each.start() for each in WORD.finditer(text)]
    found = {}
    for element in root.iter("b"):
        before = len("".join(root.xpath("//text()[following::b[@id=$id]]", id=element.get("id"))))
        end = before + len("".join(element.itertext()))
        within = [number for number, start in enumerate(starts) if before <= start < end]
        found[int(element.get("id"))] = Tag(within[0], within[-1] + 1) if within else Tag(0, 0)
    return text, found


def same_place(tag: Tag, source: int, target: int) -> Tag:
    return Tag(round(tag.first / source * target), max(1, round(tag.last / source * target)))


def right(tag: Tag, placed: Tag, known: dict[int, int]) -> bool:
    return all(
        (placed.first <= second < placed.last) == (tag.first <= first < tag.last) for first, second in known.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="made by resmlp-mt export")
    parser.add_argument("--test", type=Path, nargs=2, metavar=("SOURCE", "TARGET"), required=True)
    parser.add_argument("--train", type=Path, nargs=2, metavar=("SOURCE", "TARGET"), required=True)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--wrong", action="store_true", help="print what is wrong")
    args = parser.parse_args()
    translator = Translator(args.folder, threads=1)
    goes = dictionary(args.train)
    sentences = [line for line in read_lines(args.test[0]) if line.strip()][:1000]
    plain = translator.translate(sentences, alignment=True)
    random = Random(1)
    counts: dict[str, int] = dict.fromkeys(("the alignment", "the same words' numbers", "the same relative place"), 0)
    well_formed = same_text = tags_made = counted = 0
    for sentence, translation in zip(sentences, plain, strict=True):
        source, target = WORD.findall(sentence), WORD.findall(translation.text)
        tags = chosen(len(source), random)
        document = Markup(tagged(sentence, tags))
        if document.sentences == [sentence]:
            found = [translation]
        else:
            found = translator.translate(document.sentences, alignment=True)
        written = document.joined(found)
        tags_made += len(tags)
        try:
            text, placed = read_tags(written)
        except etree.XMLSyntaxError:
            continue
        well_formed += sorted(placed) == list(range(len(tags)))
        same_text += text == translation.text
        known = known_pairs(source, target, goes)
        for number, tag in enumerate(tags):
            if not any(tag.first <= first < tag.last for first in known):
                continue
            counted += 1
            ways = placed[number], tag, same_place(tag, len(source), len(target))
            for name, way in zip(counts, ways, strict=True):
                counts[name] += right(tag, way, known)
            if args.wrong and not right(tag, ways[0], known):
                print(tagged(sentence, tags), written, {source[a]: target[b] for a, b in known.items()}, sep="\n")
    print(well_formed, same_text, tags_made, counted, {k: v / counted for k, v in counts.items()})


if __name__ == "__main__":
    main()
