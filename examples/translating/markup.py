"""How many HTML tags come back around the right words, compared with simple rules? On sentences of a test set.

    python examples/translating/markup.py FOLDER --test test.en test.de --train train.en train.de --json markup.json

Each sentence gets one to three tags around one to three words, at fixed random places; some are inside others. The
right words come from a dictionary of the training text, not from the model. By IBM Model 1, a target word goes with its
likeliest source word, if it is among the 8 likeliest target words of that one. A pair of words is known in a sentence
if neither goes with another word there. A tag is right if it is around the partners of all its known words, and of no
other known word. Tags without a known word are not counted; punctuation is no word. The dictionary is often wrong for
function words, so the first column leaves them out. The rules to compare with put a tag around words with the same
numbers, or at the same relative place.
"""

import argparse
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from random import Random
from typing import NamedTuple

from lxml import etree
from sacrebleu import corpus_bleu

from resmlp_mt import Translator
from resmlp_mt.common.errors import one_line_errors
from resmlp_mt.common.files import read_parallel, write_json
from resmlp_mt.common.progress import text_table
from resmlp_mt.lab.machine import describe, facts, made_by
from resmlp_mt.translate.documents import document_of
from resmlp_mt.translate.options import ALIGNMENTS
from resmlp_mt.translate.shortlist import lexicon

WORD = re.compile(r"\w+(?:[-']\w+)*|[^\w\s]")
LIKELIEST = 8
FUNCTION_WORDS = """a an the this that these those of in on at to into onto with by for from up down out off over under
near around as and or but while who which it its he she his her they their is are was were be being been has have do
does some all one"""


class Tag(NamedTuple):
    """A tag around the words from ``first`` to ``last - 1``."""

    first: int
    last: int


def dictionary(train: Sequence[Path]) -> set[tuple[str, str]]:
    """Return the pairs of words that go together."""
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
    """Return the known pairs of a sentence: numbers of source words and of their partners."""
    links = [
        (first, second)
        for first, word in enumerate(source)
        for second, other in enumerate(target)
        if (word.lower(), other.lower()) in goes and any(map(str.isalnum, word))
    ]
    firsts, seconds = [first for first, _ in links], [second for _, second in links]
    return {first: second for first, second in links if firsts.count(first) == seconds.count(second) == 1}


def chosen(words: int, random: Random) -> list[Tag]:
    """Choose one to three random tags, each apart from the others or inside one of them."""
    found: list[Tag] = []
    for _ in range(random.randint(1, 3)):
        first = random.randrange(words)
        tag = Tag(first, min(words, first + random.randint(1, 3)))
        apart = {other for other in found if tag.last <= other.first or other.last <= tag.first}
        around = {other for other in found if other.first <= tag.first and tag.last <= other.last and tag != other}
        if apart | around >= set(found):
            found.append(tag)
    return found


def tagged(sentence: str, tags: Sequence[Tag]) -> str:
    """Return the sentence with its tags as HTML."""
    spans = [each.span() for each in WORD.finditer(sentence)]
    marks = []
    for number, (first, last) in enumerate(tags):
        marks.append((spans[first][0], 1, number, f'<b id="{number}">'))
        marks.append((spans[last - 1][1], 0, -number, "</b>"))
    out, start = [], 0
    for place, _, _, mark in sorted(marks):
        out += [escape(sentence[start:place], quote=False), mark]
        start = place
    return f"<p>{''.join([*out, escape(sentence[start:], quote=False)])}</p>"


def read_tags(written: str) -> tuple[str, dict[int, Tag]]:
    """Return the text of translated HTML, and each tag's words. lxml's XML parser refuses what is not well-formed."""
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
    args = parser.parse_args()
    translator = Translator(args.folder, threads=1)
    goes, random = dictionary(args.train), Random(1)
    lines, references, tags = [], [], []
    for line, reference in read_parallel(args.test):
        if not line.strip():
            continue
        chosen_tags = chosen(len(WORD.findall(line)), random)
        document = document_of(tagged(line, chosen_tags), "html")
        if document.sentences == [line]:  # a line of two sentences would be translated as two
            lines.append(line)
            references.append(reference)
            tags.append(chosen_tags)
    alone = [each.text for each in translator.translate(lines)]
    found = {by: translator.translate(lines, alignment=True, alignment_by=by) for by in ALIGNMENTS}
    names = {"omission": "omission (the score without a source token)", "attention": "the last layer's attention"}
    counts = {name: [0, 0] for name in [*names.values(), "the same relative place", "the word's number"]}
    counted = [0, 0]
    well_formed = 0
    texts = []
    for number, (line, text, asked) in enumerate(zip(lines, alone, tags, strict=True)):
        source, target = WORD.findall(line), WORD.findall(text)
        places: dict[str, dict[int, Tag]] = {}
        for by, name in names.items():
            document = document_of(tagged(line, asked), "html")
            written, places[name] = read_tags(document.joined([found[by][number]]))
            well_formed += by == "omission" and sorted(places[name]) == list(range(len(asked)))
        texts.append(written)
        relative = [same_place(tag, len(source), len(target)) for tag in asked]
        places["the same relative place"] = dict(enumerate(relative))
        places["the word's number"] = dict(enumerate(asked))
        known = known_pairs(source, target, goes)
        content = {
            first: second for first, second in known.items() if source[first].lower() not in FUNCTION_WORDS.split()
        }
        for each, tag in enumerate(asked):
            for column, pairs in enumerate((content, known)):
                if any(tag.first <= first < tag.last for first in pairs):
                    counted[column] += 1
                    for name, placed in places.items():
                        counts[name][column] += right(tag, placed[each], pairs)
    columns = [f"tags on the right words, of {counted[0]:,}", f"with function words, of {counted[1]:,}"]
    rows = {name: [f"{each / of:.1%}" for each, of in zip(both, counted, strict=True)] for name, both in counts.items()}
    print(text_table([["", *columns], *([name, *cells] for name, cells in rows.items())]))
    scores = [f"{corpus_bleu(side, [references]).score:.2f}" for side in (alone, texts)]
    told = {
        "sentences": len(lines),
        "tags": sum(map(len, tags)),
        "well-formed, with every tag": f"{well_formed / len(lines):.1%}",
        "the same text as without tags": f"{sum(map(str.__eq__, alone, texts)) / len(lines):.1%}",
        "BLEU without tags, and of the text with tags": scores,
    }
    print(told)
    if args.json is not None:
        about = {
            **made_by("python examples/translating/markup.py"),
            "machine": facts(describe(threads=1, packages=("sentencex",))),
        }
        write_json(args.json, {"markup": {**about, **told, "columns": columns, "rows": rows}})


if __name__ == "__main__":
    with one_line_errors():
        main()
