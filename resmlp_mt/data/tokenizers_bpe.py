"""Learn BPE by Hugging Face's tokenizers, in subword-nmt's format: `python tokenizers_bpe.py WORDS MERGES > CODES`.

Each line of WORDS has a word and its count. No part of the package is imported, so that the program starts fast.
"""

import json
import sys
from collections.abc import Iterator

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

END = "</w>"
# Most running words to learn from: tokenizers reads text, not counts of words, and counts pairs of letters in 32 bits.
# Of a longer text, only every second, third, ... word is used.
MOST_WORDS = 200_000_000
AT_ONCE = 100_000  # characters of text that are yielded together


def counted(path: str) -> Iterator[tuple[str, int]]:
    """Yield the words of a file and their counts."""
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            word, _, count = line.rpartition(" ")
            yield word, int(count)


def running_text(path: str, step: int) -> Iterator[str]:
    """Yield each word as often as it occurs, or every ``step``-th running word, as pieces of text."""
    passed = 0
    for word, count in counted(path):
        before, passed = passed, passed + count
        left = passed // step - before // step
        most = max(1, AT_ONCE // (len(word) + 1))
        while left > 0:
            yield f"{word} " * min(left, most)
            left -= most


def learn(path: str, symbols: int) -> list[list[str]]:
    """Learn BPE and return the merges in their order, two symbols each."""
    total = 0
    letters, last = set[str](), set[str]()
    for word, count in counted(path):
        total += count
        letters.update(word)
        last.add(word[-1] + END)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
    trainer = trainers.BpeTrainer(
        vocab_size=len(letters) + len(last) + symbols,
        min_frequency=2,  # as in subword-nmt
        show_progress=False,
        end_of_word_suffix=END,
        # Of equally frequent pairs, the trainer merges the first one by the numbers of the symbols. Without this list
        # it numbers these symbols in the order of a hash table, which differs from run to run.
        special_tokens=sorted(last),
    )
    tokenizer.train_from_iterator(running_text(path, -(-total // MOST_WORDS)), trainer)
    # Two merges can give the same symbol, which counts once in the vocabulary: so there may be more merges.
    return json.loads(tokenizer.to_str())["model"]["merges"][:symbols]


if __name__ == "__main__":
    merges = learn(sys.argv[1], int(sys.argv[2]))
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    print("#version: 0.2")
    for first, second in merges:
        print(first, second)
