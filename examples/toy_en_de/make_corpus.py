"""Write a small English-German corpus whose test sentences are combinations that its training sentences never saw.

``make_corpus.py --out DIR`` writes ``train``, ``valid`` and ``test`` as ``.en`` and ``.de``, one sentence a line, and
``held_out.tsv``; ``make_corpus.py --check DIR`` proves from these files alone that the test is unseen.
"""

import argparse
import functools
import hashlib
import itertools
import random
import re
import sys
from pathlib import Path

from lexicon import ADJECTIVES, NOUNS, VERBS, adjectives_for, overlap
from sentences import KINDS, Sampler, Sentence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also runs uninstalled

from resmlp_mt.cli.arguments import nonempty_path, number_within
from resmlp_mt.common.errors import UserError, one_line_errors
from resmlp_mt.common.files import read_lines, read_parallel, write_whole

HELD_OUT_SHARE = 0.08  # of the pairs of a verb or adjective and a noun that make sense together
ATTEMPTS = 200  # how often in a row a sentence may be refused before the grammar counts as exhausted
SPLITS = ("train", "test", "valid")

Pair = tuple[str, str]
Forms = dict[str, frozenset[str]]


def words_of(sentence: str) -> list[str]:
    """Return the words of a sentence in lower case, without punctuation and possessive 's."""
    return re.findall(r"[a-zäöüß]+(?:-[a-zäöüß]+)*", re.sub("'s\\b", "", sentence.lower()))


@functools.cache
def forms() -> tuple[Forms, Forms]:
    """Return two tables from English dictionary forms to all forms: of verbs and adjectives, and of nouns."""
    heads: dict[str, frozenset[str]] = {}
    for verb in VERBS:
        if verb.object not in ("is", "weather", "zu", "dass", "ob") and verb.en != "have":  # have is in every perfect
            heads[verb.en] = frozenset(filter(None, (verb.en, verb.en_s, verb.en_past, verb.en_pp, verb.en_ing)))
    for adjective in ADJECTIVES:
        compared = adjective.en_more.split(" ")[-1]
        heads[adjective.en] = frozenset(filter(None, (adjective.en, compared)))
    return heads, {noun.en: frozenset(filter(None, (noun.en, noun.en_plural))) for noun in NOUNS}


@functools.cache
def held_out() -> dict[Pair, None]:
    """The (verb, noun) and (adjective, noun) pairs that training must not see, chosen by a hash of their names."""
    heads, _ = forms()
    pairs = [(adjective.en, noun.en) for noun in NOUNS for adjective in adjectives_for(noun)]
    for verb, noun in itertools.product(VERBS, NOUNS):
        if verb.en in heads and (overlap(noun.classes, verb.subjects) or overlap(noun.classes, verb.objects)):
            pairs.append((verb.en, noun.en))
    return {pair: None for pair in pairs if chosen("|".join(pair))}


def chosen(name: str) -> bool:
    """Whether the hash of the name falls into the held-out share."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") < HELD_OUT_SHARE * 2**32


@functools.cache
def lemmas() -> dict[str, tuple[str, ...]]:
    """The dictionary forms that an English word may be a form of."""
    found: dict[str, tuple[str, ...]] = {}
    for table in forms():
        for lemma, words in table.items():
            for word in words:
                found[word] = (*found.get(word, ()), lemma)
    return found


def mentions_held_out(english: str) -> bool:
    """Whether both words of a held-out pair occur in the sentence, in any form and however far apart."""
    found = [lemma for word in words_of(english) for lemma in lemmas().get(word, ())]
    pairs = held_out()
    return any(pair in pairs for pair in itertools.permutations(found, 2))


def corpus(sizes: dict[str, int], seed: int) -> dict[str, list[Sentence]]:
    """Draw the sentences of each split.

    Args:
        sizes: how many sentences for ``train``, ``test`` and ``valid``
        seed: same seed, same sentences
    """
    sampler = Sampler(random.Random(seed))
    seen_en: set[str] = set()
    seen_de: set[str] = set()
    vocabulary: set[tuple[str, str]] = set()
    made: dict[str, list[Sentence]] = {}
    for split in SPLITS:
        made[split] = []
        failures = 0
        while len(made[split]) < sizes[split]:
            sentence = random_sentence(sampler, split)
            words = {("en", word) for word in words_of(sentence.en)} | {("de", word) for word in words_of(sentence.de)}
            fresh = sentence.en not in seen_en and (split == "train" or sentence.de not in seen_de)
            if fresh and (split == "train" or words <= vocabulary):
                failures = 0
                made[split].append(sentence)
                seen_en.add(sentence.en)
                seen_de.add(sentence.de)
                vocabulary |= words if split == "train" else set()
                continue
            failures += 1
            if failures == ATTEMPTS:
                raise UserError(
                    f"--{split} {sizes[split]}: no new sentence after {len(made[split])}: "
                    + ("ask for fewer" if split == "train" else "ask for fewer, or for more --train sentences")
                )
    return made


def random_sentence(sampler: Sampler, split: str) -> Sentence:
    """Draw a sentence for the split: without held-out pairs for training, with at least one for the others."""
    while True:
        kind = sampler.weighted(KINDS)
        for _ in range(ATTEMPTS):  # the same kind again, so that every split has its share of every kind
            sentence = sampler.sentence(kind)
            if split == "train" and not mentions_held_out(sentence.en):
                return sentence
            if split != "train" and any(pair in held_out() for pair in sentence.relations):
                return sentence


def write(folder: Path, made: dict[str, list[Sentence]], overwrite: bool = False) -> None:
    """Write the splits and the table of held-out pairs."""
    texts = {
        folder / f"{split}.{language}": "".join(f"{getattr(sentence, language)}\n" for sentence in sentences)
        for split, sentences in made.items()
        for language in ("en", "de")
    }
    heads, nouns = forms()
    rows = (f"{' '.join(sorted(heads[head]))}\t{' '.join(sorted(nouns[noun]))}\n" for head, noun in held_out())
    texts[folder / "held_out.tsv"] = "".join(rows)
    for path, text in texts.items():
        if path.is_file() and not overwrite and path.read_bytes() != text.encode():
            raise UserError(
                f"{path}: is there with other contents: choose another folder, or allow it with --overwrite"
            )
    for path, text in texts.items():
        write_whole(path, text)


def check_unseen(folder: Path) -> list[str]:
    """Prove from the written files that the test (and the validation) sentences are unseen combinations.

    It does not use the grammar: it reads the six text files and ``held_out.tsv``, whose lines hold the English forms of
    the two words of a held-out pair.

    Returns:
        the lines of a report
    """
    pairs = held_out_forms(folder / "held_out.tsv")
    train = list(read_parallel([folder / "train.en", folder / "train.de"]))
    seen = {text: "train" for sentence in train for text in sentence}
    words_seen = [{word for sentence in train for word in words_of(sentence[side])} for side in (0, 1)]
    for number, (english, _) in enumerate(train, start=1):
        if pair := first_pair(english, pairs):
            raise UserError(f"{folder / 'train.en'}:{number}: has the held-out pair {pair}: make the corpus again")
    report = [f"train: {len(train)} sentences, {len(words_seen[0])} English and {len(words_seen[1])} German words"]
    report += [f"held out: {len(set(pairs.values()))} pairs of words, in no training sentence together"]
    for split in ("valid", "test"):
        used: set[str] = set()
        number = 0
        for number, sentence in enumerate(read_parallel([folder / f"{split}.en", folder / f"{split}.de"]), start=1):
            where = f"{folder / split}.en:{number}"
            pair = first_pair(sentence[0], pairs)
            if not pair:
                raise UserError(f"{where}: has no held-out pair, so it is no unseen combination: make the corpus again")
            used.add(pair)
            for side, text in enumerate(sentence):
                if text in seen:
                    raise UserError(
                        f"{where}: it or its translation occurs in {seen[text]} as well: make the corpus again"
                    )
                if unknown := set(words_of(text)) - words_seen[side]:
                    raise UserError(f"{where}: {sorted(unknown)[0]!r} is not in training: make the corpus again")
            seen.update(dict.fromkeys(sentence, split))
        report += [
            f"{split}: {number} sentences, {number} with a held-out pair ({len(used)} different), "
            "0 seen elsewhere, 0 unknown words"
        ]
    return report


def held_out_forms(path: Path) -> dict[Pair, str]:
    """Read the held-out pairs, by every combination of their English forms."""
    pairs: dict[Pair, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split("\t")
        if len(cells) != 2 or not all(cells):
            raise UserError(f"{path}:{number}: not two columns of word forms: make the corpus again")
        heads, nouns = (cell.split(" ") for cell in cells)
        pairs.update({(head, noun): f"{heads[0]} + {nouns[0]}" for head in heads for noun in nouns})
    return pairs


def first_pair(english: str, pairs: dict[Pair, str]) -> str:
    """Return the name of a held-out pair whose two words are both in the sentence, or an empty string."""
    return next((pairs[pair] for pair in itertools.permutations(words_of(english), 2) if pair in pairs), "")


def main(arguments: list[str] | None = None) -> None:
    """Make a corpus, or check one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--out", metavar="DIR", type=nonempty_path, help="write the corpus into this folder, then check it"
    )
    what.add_argument("--check", metavar="DIR", type=nonempty_path, help="only check the corpus in this folder")
    size = number_within(0, 10**9)
    parser.add_argument("--train", metavar="N", type=size, default=24000, help="training sentences (%(default)s)")
    parser.add_argument("--valid", metavar="N", type=size, default=500, help="validation sentences (%(default)s)")
    parser.add_argument("--test", metavar="N", type=size, default=500, help="test sentences (%(default)s)")
    parser.add_argument("--seed", metavar="S", type=int, default=1, help="same seed, same corpus (%(default)s)")
    parser.add_argument("--overwrite", action="store_true", help="write over files of DIR with other contents")
    options = parser.parse_args(arguments)
    if options.out:
        made = corpus({split: getattr(options, split) for split in SPLITS}, options.seed)
        write(options.out, made, options.overwrite)
    print("\n".join(check_unseen(options.out or options.check)))


if __name__ == "__main__":
    with one_line_errors():
        main()
