"""Do addresses and placeholders come out as they went in, and where? What do they cost the rest of the text?

    python examples/translating/placeholders.py FOLDER test_2016_flickr.en test_2016_flickr.de --json placeholders.json

One or two of them are inserted into each of 200 sentences, at fixed random places between words. Where they come out
is judged by names: if source and reference have the same name, it is replaced by {name} in both.
"""

import argparse
import json
import re
from pathlib import Path
from random import Random

from sacrebleu import corpus_bleu

from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError, one_line_errors
from resmlp_mt.common.files import read_parallel, write_json
from resmlp_mt.lab.machine import describe, facts, made_by

ENTITIES = "https://example.org/a_(b)?c=1&d=%20", "www.example.org", "j.doe@mail.example.org", "{name}", "%s", "{{ x }}"
ENTITIES += "%(count)d", "${HOME}"
SENTENCES = 200
NAME = re.compile(r"(?<=[a-z,] )[A-Z]\w+")  # an English word with a capital letter within a sentence


def plain(text: str) -> str:
    """Return a text without its entities."""
    for entity in ENTITIES:
        text = text.replace(entity, " ")
    return re.sub(r" +(?=[.,])", "", " ".join(text.split()))


def inserted(translator: Translator, pairs: list[tuple[str, ...]]) -> dict[str, str]:
    random = Random(1)
    texts, given = [], []
    for source, _ in pairs:
        words = source.split()
        given.append(random.sample(ENTITIES, random.randint(1, 2)))
        for entity in given[-1]:
            words.insert(random.randint(0, len(words)), entity)
        texts.append(" ".join(words))
    found = [each.text for each in translator.translate(texts)]
    counts = [one.count(each) for one, entities in zip(found, given, strict=True) for each in entities]
    without = [each.text for each in translator.translate([source for source, _ in pairs])]
    right = [[reference for _, reference in pairs]]
    return {
        "sentences with one or two inserted": str(len(texts)),
        "inserted": str(len(counts)),
        "come out exactly, once each": str(counts.count(1)),
        "BLEU of the rest": f"{corpus_bleu(list(map(plain, found)), right).score:.2f}",
        "BLEU of the plain text": f"{corpus_bleu(without, right).score:.2f}",
    }


def beside(text: str) -> tuple[str, str]:
    """Return the words before and after ``{name}``."""
    before, _, behind = text.partition("{name}")
    return (before.split() or [""])[-1], (re.findall(r"\w+|\S", behind) or [""])[0]


def named(translator: Translator, pairs: list[tuple[str, ...]]) -> dict[str, str]:
    both = []
    for source, reference in pairs:
        same = [name for name in NAME.findall(source) if len(re.findall(rf"\b{name}\b", reference)) == 1]
        if same and source.count(same[0]) == 1:
            both.append([re.sub(rf"\b{same[0]}\b", "{name}", text) for text in (source, reference)])
    if not both:
        raise UserError("no sentence has one name in both languages: give other text, such as Multi30k's")
    found = [each.text for each in translator.translate([source for source, _ in both])]
    near = [any(map(str.__eq__, beside(one), beside(right))) for one, (_, right) in zip(found, both, strict=True)]
    far = []  # the simple rule: at the same relative place as in the source
    for text, (source, _) in zip(found, both, strict=True):
        words, place = text.replace("{name}", " ").split(), source.split()
        share = next(n for n, word in enumerate(place) if "{name}" in word) / len(place)
        words.insert(round(share * len(words)), "{name}")
        far.append(" ".join(words))
    by_rule = [any(map(str.__eq__, beside(one), beside(right))) for one, (_, right) in zip(far, both, strict=True)]
    right = [[reference for _, reference in both]]
    return {
        "sentences with a name": str(len(both)),
        "{name} stands beside the same word as in the reference": f"{sum(near)}",
        "the same, placed by share of words": f"{sum(by_rule)}",
        "BLEU with {name}": f"{corpus_bleu(found, right).score:.2f}",
        "the same, placed by share of words: BLEU": f"{corpus_bleu(far, right).score:.2f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="made by resmlp-mt export")
    parser.add_argument("source")
    parser.add_argument("reference")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="for the figures")
    args = parser.parse_args()
    texts = args.source, args.reference
    translator, pairs = Translator(args.folder), list(read_parallel(texts))
    with_names = named(translator, pairs)
    rows = {**inserted(translator, pairs[:SENTENCES]), **with_names}
    record = {
        **made_by("python examples/translating/placeholders.py"),
        "machine": facts(describe(packages=["sacrebleu"])),
        "columns": ["Multi30k, gated with a band"],
        "rows": {name: [value] for name, value in rows.items()},
    }
    print(json.dumps(rows, indent=1))
    write_json(args.json, {"placeholders": record})


if __name__ == "__main__":
    with one_line_errors():
        main()
