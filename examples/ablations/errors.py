"""Count errors in the translations of a table by rules, and compute BLEU by the length of the source.

`python examples/ablations/errors.py RECIPE --work WORK --out OUT` reads the finished rows of ablate (English
to German), and writes OUT/errors.SUBSET.json and .md. The rules see words, not meaning: use them to compare systems.
"""

import argparse
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError, one_line_errors
from resmlp_mt.common.files import read_lines, write_json, write_whole
from resmlp_mt.common.progress import markdown_table, text_table
from resmlp_mt.lab.ablations.recipe import read_recipe, row_folders
from resmlp_mt.lab.machine import describe
from resmlp_mt.score.scoring import detokenized_scores

LENGTHS = (1, 9), (10, 12), (13, 16), (17, 22), (23, 999)  # words of the source
NUMBERS = {
    "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs", "seven": "sieben",
    "eight": "acht", "nine": "neun", "ten": "zehn",
}  # fmt: skip
ARTICLES = {"ein", "eine", "einen", "einem", "einer", "eines", "der", "die", "das", "den", "dem", "des"}
SEEN = 10  # how often a noun must occur in the training text before its articles count as known
STRENGTH = 0.3  # Dice coefficient from which a German word counts as a translation of an English one


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


class Rules:
    """Rules from the training text: which words translate each other, and which articles come before a noun."""

    def __init__(self, sources: Iterable[str], targets: Iterable[str]):
        pairs: Counter[tuple[str, str]] = Counter()
        left: Counter[str] = Counter()
        right: Counter[str] = Counter()
        self.articles: dict[str, Counter[str]] = defaultdict(Counter)
        for source, target in zip(sources, targets, strict=True):
            ours, theirs = set(words(source.lower())), set(words(target))
            left.update(ours)
            right.update(theirs)
            pairs.update((one, other) for one in ours for other in theirs)
            self._read_articles(words(target))
        self.translations: dict[str, set[str]] = defaultdict(set)
        for (one, other), count in pairs.items():
            if left[one] >= SEEN and 2 * count / (left[one] + right[other]) >= STRENGTH:
                self.translations[one].add(other.lower())

    def _read_articles(self, target: list[str]) -> None:
        for article, noun in pairwise(target):
            if article.lower() in ARTICLES and noun[0].isupper():
                self.articles[noun][article.lower()] += 1

    def errors(self, source: str, translation: str, reference: str) -> Counter[str]:
        """Count the errors of one translation, by kind."""
        ours, theirs, right = words(source.lower()), words(translation), words(reference)
        lower, lower_right = words(translation.lower()), words(reference.lower())
        found: Counter[str] = Counter()
        for word in set(ours):
            known = self.translations.get(word, set())
            found["omissions"] += known.isdisjoint(lower) and not known.isdisjoint(lower_right)
            if word in NUMBERS:
                found["numbers"] += NUMBERS[word] in lower_right and NUMBERS[word] not in lower
        found["numbers"] += sum(word not in right and word not in source for word in theirs if word.isdigit())
        names = {word for word in words(source)[1:] if word[0].isupper() and word in right}
        found["names"] = len(names - set(theirs))
        twice, allowed = Counter(pairwise(lower)), Counter(pairwise(lower_right))
        again = any(count > max(1, allowed[pair]) and max(map(len, pair)) > 3 for pair, count in twice.items())
        found["repetitions"] = int(again or any(one == other for one, other in pairwise(lower)))
        for article, noun in pairwise(theirs):
            before = self.articles.get(noun, Counter())
            if article.lower() in ARTICLES and before.total() >= SEEN and article.lower() not in before:
                found["agreement"] += 1
        return found


def by_length(
    sources: Sequence[str], translations: Sequence[str], references: Sequence[str], language: str
) -> list[float | None]:
    """Return sacreBLEU for each of LENGTHS, of the sentences whose source is that long; None if there is none."""
    scores: list[float | None] = []
    for low, high in LENGTHS:
        chosen = [n for n, source in enumerate(sources) if low <= len(words(source)) <= high]
        ours, right = ([text[n] for n in chosen] for text in (translations, references))
        scores.append(detokenized_scores(ours, right, language)["sacrebleu"]["score"] if chosen else None)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="the folder of the data, with the sources too")
    parser.add_argument("--out", type=Path, required=True, help="the folder of resmlp-mt ablate")
    args = parser.parse_args()
    recipe = read_recipe(args.recipe)
    source, target = recipe.langs
    reference = args.work / recipe.reference
    sources, references = list(read_lines(reference.with_suffix(f".{source}"))), list(read_lines(reference))
    rules = Rules(*(read_lines(args.work / f"tokenized/train.1.{lang}") for lang in recipe.langs))
    kinds = ["omissions", "numbers", "names", "repetitions", "agreement"]
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for folder in row_folders(recipe, args.out, args.work / recipe.data):
        if folder.finished:
            texts = folder.translated_text(references)
            counts = sum(map(rules.errors, sources, texts, references), Counter())
            scores = by_length(sources, texts, references, target)
            rows[folder.name].append(
                {"seed": folder.seed, "errors": {kind: counts[kind] for kind in kinds}, "bleu": scores}
            )
    if not rows:
        raise UserError(f"{args.out}: no row is finished: run resmlp-mt ablate first")
    lengths = (f"BLEU, {low} to {high} words" if high < 999 else f"BLEU, {low} words on" for low, high in LENGTHS)
    cells = [["", *kinds, *lengths]]
    for name, runs in rows.items():
        values = [[*run["errors"].values(), *run["bleu"]] for run in runs]
        means = ("" if None in column else f"{statistics.fmean(column):.1f}" for column in zip(*values, strict=True))
        cells.append([name, *means])
    about = {"sentences": len(references), **describe(threads=1, packages=("sacrebleu",))}
    name = args.out / f"errors.{recipe.subset}"
    write_json(f"{name}.json", {"title": recipe.title, "about": about, "rows": rows, "table": cells})
    write_whole(f"{name}.md", markdown_table(cells) + "\n")
    print(text_table(cells))


if __name__ == "__main__":
    with one_line_errors():
        main()
