"""Whether a model in pure PyTorch is the fairseq model that it was made of."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from fairseq.data import data_utils
from torch import Tensor

from resmlp_mt.nn import EncoderDecoder


def batches(model: Any, left_pad_target: bool = False) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Sources B x S, previous tokens B x T, where these are no padding, at random; the last is as long as can be."""
    generator = torch.Generator().manual_seed(0)
    longest_source, longest_target = model.max_positions()
    pad, eos = model.encoder.dictionary.pad(), model.encoder.dictionary.eos()

    def sentences(dictionary: Any, lengths: list[int], longest: int, **collation: bool) -> Tensor:
        rows = []
        for length in lengths:
            words = torch.randint(
                dictionary.nspecial, len(dictionary), (min(length, longest) - 1,), generator=generator
            )
            rows.append(torch.cat([words, torch.tensor([eos])]))
        return data_utils.collate_tokens(rows, pad, eos, **collation)

    for left_pad, sources, targets in (
        (False, [1], [2]),
        (False, [3, 7, 1], [5, 2, 9]),
        (True, [4, 2, 11], [5, 6, 2]),
        (True, [longest_source, 2], [longest_target, 3]),
    ):
        source = sentences(model.encoder.dictionary, sources, longest_source, left_pad=left_pad)
        collation = {"left_pad": left_pad_target, "move_eos_to_beginning": True}
        previous = sentences(model.decoder.dictionary, targets, longest_target, **collation)
        yield source, previous, previous.ne(pad)


def fairseq_scores(model: Any, source: Tensor, previous: Tensor) -> Tensor:
    """Those of fairseq's model, as an ``EncoderDecoder`` gives them."""
    out = model(source, None, previous)
    return out[0] if model.decoder.adaptive_softmax is None else model.get_normalized_probs(out, log_probs=True)


@torch.no_grad()
def largest_difference(model: Any, ours: EncoderDecoder) -> float:
    """How far scores are at most from those of fairseq's model (fp32, not folded); infinity where one is no number."""
    largest = 0.0
    for left_pad_target in False, True:
        for source, previous, real in batches(model, left_pad_target):
            difference = ours(source, previous) - fairseq_scores(model, source, previous)
            found = difference[real].abs().max().item()
            largest = max(largest, math.inf if math.isnan(found) else found)
    return largest
