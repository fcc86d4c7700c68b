"""Measure how often translations obey constraints, and what this costs in quality, on a test set with references.

    python examples/translating/constraints.py FOLDER test.en test.de --json results.json

For each sentence, a term is taken from its reference: one that the plain translation lacks ("new"), or has, too
("known", like most terms of a usual glossary). A word of the plain translation is avoided, or one that the reference
lacks ("wrong"). The reference's first words are a prefix. All translations are scored, and the plain ones, too.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError, one_line_errors
from resmlp_mt.common.files import read_parallel, write_json
from resmlp_mt.common.progress import text_table
from resmlp_mt.lab.machine import describe, made_by
from resmlp_mt.score.scoring import detokenized_scores

LETTERS = 4  # of a term, at least


def words(text: str) -> list[str]:
    """Return the words of a text that could be terms."""
    return [word for word in re.findall(r"[\w-]+", text) if len(word) >= LETTERS and word.isalpha()]


def has(text: str, word: str) -> bool:
    """Return whether a text has a word; at the start of the text it may be capitalized."""
    either = rf"(?:^{re.escape(word[:1].upper() + word[1:])}|(?<![\w-]){re.escape(word)})(?![\w-])"
    return re.search(either, text) is not None


def rarest(candidates: Sequence[str], counts: Counter[str]) -> list[str]:
    """Return the rarest of the words, in a list, which is empty if there are none."""
    return sorted(candidates, key=lambda word: (counts[word], word))[:1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="made by resmlp-mt export")
    parser.add_argument("source", help="running text, a sentence a line")
    parser.add_argument("reference", help="its translations")
    parser.add_argument("--lines", type=int, help="use the first ones only")
    parser.add_argument("--json", help="write the results to this file")
    args = parser.parse_args()
    pairs = list(read_parallel([args.source, args.reference]))[: args.lines]
    if not pairs:
        raise UserError(f"{args.source}: no lines to translate")
    sources, references = zip(*pairs, strict=True)
    translator = Translator(args.folder)
    language = translator.tokenizer.settings.target_language
    plain = [each.text for each in translator.translate(sources)]
    counts = Counter(word for text in references for word in words(text))
    new, known, avoid, wrong, begin = (list[Any]() for _ in range(5))
    for reference, text in zip(references, plain, strict=True):
        new.append(rarest([word for word in words(reference)[1:] if not has(text, word)], counts))
        known.append(rarest([word for word in words(reference)[1:] if has(text, word)], counts))
        avoid.append(rarest(words(text), counts))
        wrong.append(rarest([word for word in words(text) if not has(reference, word)], counts))
        begin.append(" ".join(reference.split()[:2]).rstrip(",.") if text and words(reference) else None)

    refused: Counter[str] = Counter()

    def singly(name: str, values: list[Any]) -> list[str]:
        found = []
        for number, source in enumerate(sources):
            value = {source: values[number]} if name == "glossary" and values[number] else values[number]
            try:
                found.append(translator.translate(source, **({name: value} if value else {})).text)
            except UserError as error:  # the model cannot produce it
                print(error, file=sys.stderr)
                found.append(plain[number])
                values[number] = None
                refused[name] += 1
        return found

    def obeys(text: str, terms: list[str]) -> bool:
        return has(text, *terms)

    def lacks(text: str, word: list[str]) -> bool:
        return not re.search(rf"(?<![\w-]){re.escape(*word)}(?![\w-])", text)

    tests = {
        "a new term": (new, singly("glossary", new), obeys),
        "a known term": (known, singly("glossary", known), obeys),
        "a word avoided": (avoid, singly("avoid", avoid), lacks),
        "a wrong word avoided": (wrong, singly("avoid", wrong), lacks),
        "a prefix": (begin, singly("prefix", begin), str.startswith),
    }
    rows = {}
    for name, (asked, found, right) in {"plain": ([], plain, obeys), **tests}.items():
        obeyed = [right(text, value) for text, value in zip(found, asked, strict=False) if value]
        share = f"{100 * sum(obeyed) / len(obeyed):.1f}%" if obeyed else ""
        scores = detokenized_scores(found, references, language)
        rows[name] = [f"{len(obeyed):,}", share, *(f"{each['score']:.2f}" for each in scores.values())]
    made = {**made_by("python examples/translating/constraints.py"), "machine": describe()}
    columns = ["asked of sentences", "obeyed", "sacreBLEU", "chrF2"]
    print(text_table([["", *columns], *([name, *cells] for name, cells in rows.items())]))
    if args.json:
        write_json(args.json, {"constraints": {**made, "refused": refused, "columns": columns, "rows": rows}})


if __name__ == "__main__":
    with one_line_errors():
        main()
