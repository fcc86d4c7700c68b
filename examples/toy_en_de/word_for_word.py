"""The word-for-word baseline: every English word becomes the German word that goes with it best, in English order.

The dictionary is learnt from the training sentences: for each English word, the German word with the highest Dice
coefficient, that is, the one that most nearly occurs in the same sentences. So the choice of words is fair. Missing is
what makes a sentence German: word order, agreement, verbs in two parts, words without an English counterpart.
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also runs uninstalled

from resmlp_mt.common.errors import UserError, one_line_errors
from resmlp_mt.common.files import atomic_write, check_outputs, read_lines, read_parallel

WORD = re.compile(r"[\w-]+")


def words_of(sentence: str) -> list[str]:
    """Return the words of a sentence, whose first letter becomes lower case."""
    return WORD.findall(sentence[:1].lower() + sentence[1:])


def learn(train: Path) -> dict[str, str]:
    """Return the best German word for each English word of ``TRAIN.en`` and ``TRAIN.de``."""
    english_counts: Counter[str] = Counter()
    german_counts: Counter[str] = Counter()
    together: dict[str, Counter[str]] = {}
    for pair in read_parallel([f"{train}.en", f"{train}.de"]):
        english, german = (sorted(set(words_of(sentence))) for sentence in pair)
        english_counts.update(english)
        german_counts.update(german)
        for word in english:
            together.setdefault(word, Counter()).update(german)
    if not together:
        raise UserError(f"{train}.en: no sentences to learn from: make the corpus with make_corpus.py")
    return {
        word: max(found, key=lambda other: (2 * found[other] / (english_counts[word] + german_counts[other]), other))
        for word, found in together.items()
    }


def translate(sentence: str, dictionary: dict[str, str]) -> str:
    """Translate a sentence word for word; punctuation and words that the dictionary lacks stay as they are."""
    sentence = sentence[:1].lower() + sentence[1:]
    text = WORD.sub(lambda match: dictionary.get(match[0], match[0]), sentence)
    return text[:1].upper() + text[1:]


def main(arguments: list[str] | None = None) -> None:
    """Translate a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", metavar="PREFIX", required=True, type=Path, help="learn from PREFIX.en, PREFIX.de")
    parser.add_argument("--input", metavar="FILE", required=True, type=Path, help="English sentences, one a line")
    parser.add_argument("--output", metavar="FILE", required=True, type=Path, help="their word-for-word German")
    options = parser.parse_args(arguments)
    check_outputs([options.output], [options.input, f"{options.train}.en", f"{options.train}.de"])
    dictionary = learn(options.train)
    with atomic_write(options.output) as stream:
        stream.writelines(translate(sentence, dictionary) + "\n" for sentence in read_lines(options.input))


if __name__ == "__main__":
    with one_line_errors():
        main()
