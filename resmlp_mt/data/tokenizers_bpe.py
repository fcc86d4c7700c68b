"""BPE by Hugging Face's tokenizers, as subword-nmt writes it: `python tokenizers_bpe.py WORDS MERGES > CODES`.

WORDS has a word and how often it occurs on each line. No part of the package is imported, so that it starts at once.
"""

import json
import sys
from collections.abc import Iterator

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

END = "</w>"
# Running words to learn from: tokenizers takes no counts, and counts pairs of letters in 32 bits. Of a longer text,
# every second, third, ... word is taken.
MOST_WORDS = 200_000_000
AT_ONCE = 100_000  # characters


def counted(path: str) -> Iterator[tuple[str, int]]:
    """The words of a file and their counts."""
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            word, _, count = line.rpartition(" ")
            yield word, int(count)


def running_text(path: str, step: int) -> Iterator[str]:
    """The words as often as they occur, or every ``step``-th of them, some at a time."""
    passed = 0
    for word, count in counted(path):
        before, passed = passed, passed + count
        left = passed // step - before // step
        most = max(1, AT_ONCE // (len(word) + 1))
        while left > 0:
            yield f"{word} " * min(left, most)
            left -= most


def learn(path: str, symbols: int) -> list[list[str]]:
    """The merges learned, in their order: two symbols each."""
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
        min_frequency=2,  # as subword-nmt's
        show_progress=False,
        end_of_word_suffix=END,
        # Of pairs that are equally frequent the first is merged, by the order of the symbols. Left to itself, the
        # trainer numbers these symbols as it meets them in a hash table, which is another in every run.
        special_tokens=sorted(last),
    )
    tokenizer.train_from_iterator(running_text(path, -(-total // MOST_WORDS)), trainer)
    # A symbol that two merges lead to counts once in the vocabulary: there may be some merges more.
    return json.loads(tokenizer.to_str())["model"]["merges"][:symbols]


if __name__ == "__main__":
    merges = learn(sys.argv[1], int(sys.argv[2]))
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    print("#version: 0.2")
    for first, second in merges:
        print(first, second)
