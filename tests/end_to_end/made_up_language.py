"""A language pair that a tiny model can learn."""

import itertools
import random

WORDS = [a + b + c for a, b, c in itertools.product(["ba", "mi", "so"], ["lu", "ne"], ["ta", "ko"])]
TRAIN, VALID = 120, 16


def sentence_pairs(number, seed):
    """German has the words, a full stop and nothing else; English the same in capitals and backwards."""
    generator = random.Random(seed)
    for _ in range(number):
        words = [generator.choice(WORDS) for _ in range(generator.randint(2, 5))]
        yield " ".join(words) + ".", " ".join(word.upper() for word in reversed(words)) + "."
