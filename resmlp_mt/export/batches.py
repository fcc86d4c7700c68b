"""Random sentences, on which an exported model is compared with the one that it was made of."""

from collections.abc import Iterator
from typing import Any

import torch
from fairseq.data import data_utils
from torch import Tensor


def batches(model: Any, left_pad_target: bool = False) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Sources B x S, what the decoder reads R x T, and where that is no padding; the last is as long as can be."""
    generator = torch.Generator().manual_seed(0)
    longest_source, longest_target = model.max_positions()
    pad, eos = model.encoder.dictionary.pad(), model.encoder.dictionary.eos()

    def sentences(dictionary: Any, lengths: list[int], **collation: bool) -> Tensor:
        rows = []
        for length in lengths:
            words = torch.randint(dictionary.nspecial, len(dictionary), (length - 1,), generator=generator)
            rows.append(torch.cat([words, torch.tensor([eos])]))
        return data_utils.collate_tokens(rows, pad, eos, **collation)

    for left_pad, sources, targets in (
        (False, [1], [2]),
        (False, [3, 7, 1], [5, 2, 9]),
        (True, [4, 2, 11], [5, 6, 2, 8, 1, 3]),
        (True, [longest_source, 2], [longest_target, 3]),
    ):
        sources = [min(length, longest_source) for length in sources]
        targets = [min(length, longest_target) for length in targets]
        source = sentences(model.encoder.dictionary, sources, left_pad=left_pad)
        previous = sentences(model.decoder.dictionary, targets, left_pad=left_pad_target, move_eos_to_beginning=True)
        yield source, previous, previous.ne(pad)
