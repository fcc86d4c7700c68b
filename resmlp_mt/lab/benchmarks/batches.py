"""Batches of sentences, as fairseq makes them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.data.language_pair_dataset import collate
from torch import Tensor

from resmlp_mt.common.errors import UserError

LARGEST = 1 << 22
"""Tokens of a batch beyond which it is a slip of the hand."""


@dataclass(frozen=True)
class Shape:
    """The longest sentence of a batch in subwords with ``</s>``, on either side, and how many sentences there are."""

    length: int
    sentences: int

    def __str__(self) -> str:
        return f"{self.length}x{self.sentences}"

    @staticmethod
    def parse(text: str) -> "Shape":
        """Read ``24x32``."""
        found = re.fullmatch("([0-9]{1,5})x([0-9]{1,6})", text)
        if not (found and int(found[1]) > 1 and int(found[2]) > 0):
            raise UserError(f"{text!r}: no shape: give LENGTHxSENTENCES, such as 24x32, with a length of 2 or more")
        shape = Shape(int(found[1]), int(found[2]))
        if shape.length * shape.sentences > LARGEST:
            raise UserError(f"{text}: {shape.length * shape.sentences:,} tokens: give a batch of {LARGEST:,} at most")
        return shape


def random_sentences(lengths: Sequence[int], dictionary: Dictionary, seed: int) -> list[Tensor]:
    """Sentences of these lengths, ``</s>`` included."""
    generator = torch.Generator().manual_seed(seed)
    words = [torch.randint(dictionary.nspecial, len(dictionary), (n - 1,), generator=generator) for n in lengths]
    return [torch.cat([each, torch.tensor([dictionary.eos()])]) for each in words]


def batch(sources: Sequence[Tensor], targets: Sequence[Tensor], dictionary: Dictionary) -> dict[str, Any]:
    """What fairseq's data loader gives for these pairs: sources padded on the left, targets on the right."""
    pairs = [
        {"id": number, "source": source, "target": target}
        for number, (source, target) in enumerate(zip(sources, targets, strict=True))
    ]
    return collate(pairs, dictionary.pad(), dictionary.eos())


def spread_lengths(shape: Shape, padding: float) -> list[int]:
    """Lengths of the sentences of a batch, longest first.

    Args:
        padding: how much of the batch is padding, less than 0.5; lengths are spread evenly up to the longest
    """
    shortest = max(2, round(shape.length * (1 - 2 * padding)))
    return torch.linspace(shape.length, shortest, shape.sentences).round().int().tolist()


def random_batch(shape: Shape, padding: float, dictionary: Dictionary) -> dict[str, Any]:
    """Random pairs of that shape, sources and targets equally long."""
    lengths = spread_lengths(shape, padding)
    return batch(random_sentences(lengths, dictionary, 1), random_sentences(lengths, dictionary, 2), dictionary)
