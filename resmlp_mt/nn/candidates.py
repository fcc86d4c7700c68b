"""The scores of a few target tokens, for each sentence its own, instead of those of the whole vocabulary."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class CandidateScorer(NamedTuple):
    """Target tokens of B sentences, and what scores them.

    Weights are most of what a step reads, so those of sentences that are finished are not taken out one by one, but
    once they are a quarter of all.
    """

    numbers: Tensor  # B x L, with padding at the end
    weights: Tensor  # rows of the output projection, B' x L x C, B of them in use
    mask: Tensor  # added to scores, B' x 1 x L: 0, at padding minus infinity
    used: Tensor  # B, which of the B' are in use

    @classmethod
    def of(cls, numbers: Tensor, projection: Tensor, pad: int) -> "CandidateScorer":
        """What scores these tokens (B x L, padded) by the rows of an output projection, V x C."""
        mask = torch.zeros(numbers.shape, dtype=projection.dtype, device=numbers.device)
        mask = mask.masked_fill(numbers.eq(pad), float("-inf")).unsqueeze(1)
        used = torch.arange(len(numbers), device=numbers.device)
        return cls(numbers, F.embedding(numbers, projection), mask, used)

    def scores(self, x: Tensor) -> Tensor:
        """``BK x T x C -> BK x T x L``, the K rows of a sentence one after another."""
        used, sentences = self.used.size(0), self.weights.size(0)
        rows = x.reshape(used, -1, x.size(2))
        all_used = used == sentences
        if not all_used:
            rows = rows.new_zeros(sentences, rows.size(1), rows.size(2)).index_copy(0, self.used, rows)
        y = torch.baddbmm(self.mask, rows, self.weights.transpose(1, 2))
        return (y if all_used else y[self.used]).view(x.size(0), x.size(1), -1)

    def reorder(self, sentences: Tensor) -> "CandidateScorer":
        """The sentences of ``sentences`` (B'')."""
        numbers, used = self.numbers[sentences], self.used[sentences]
        if 4 * len(used) > 3 * len(self.weights):
            return CandidateScorer(numbers, self.weights, self.mask, used)
        kept = torch.arange(len(used), device=used.device)
        return CandidateScorer(numbers, self.weights[used], self.mask[used], kept)
