"""The beams of a sentence share what is kept of its source: fairseq's search would have it copied for each of them.

The encoder's output remembers which sentence each of its rows is of; so the decoder knows at its first step which rows
are beams of one sentence, and nothing moves when beams change places. On a GPU, where a look at the order would have to
wait for it, every beam keeps its own.
"""

import torch
from torch import Tensor

IncrementalState = dict[str, dict[str, Tensor | None]]
"""fairseq's: what each part of a decoder keeps between the steps, by names."""


def remember_beams(incremental_state: IncrementalState, sentence: Tensor) -> None:
    """Leave in a new state how many rows in a row are of one sentence, if that is the same for all; otherwise 1.

    Args:
        sentence: B, which sentence each row is of
    """
    if "beams" not in incremental_state:
        beams = int((sentence == sentence[0]).sum())
        groups = sentence.view(-1, beams) if sentence.numel() % beams == 0 else sentence.unsqueeze(0)
        if not bool((groups == groups[:, :1]).all()):
            beams = 1
        remembered: dict[str, Tensor | None] = {"of_a_sentence": torch.tensor(beams)}
        incremental_state["beams"] = remembered


def remembered_beams(incremental_state: IncrementalState) -> int:
    """What ``remember_beams`` left there, or 1."""
    if "beams" in incremental_state:
        beams = incremental_state["beams"]["of_a_sentence"]
        if beams is not None:
            return int(beams)
    return 1


def order_of_sentences(incremental_state: IncrementalState, new_order: Tensor) -> Tensor:
    """The sentences (B' / K) whose beams ``new_order`` (B') continues.

    No search of fairseq's parts the beams of a sentence. Where another does, each has its own source from then on.
    """
    beams = remembered_beams(incremental_state)
    chosen = new_order // beams
    if beams > 1:
        groups = chosen.view(-1, beams) if chosen.numel() % beams == 0 else chosen.unsqueeze(0)
        if bool((groups == groups[:, :1]).all()) and groups.size(1) == beams:
            return groups[:, 0]
        parted: dict[str, Tensor | None] = {"of_a_sentence": torch.tensor(1)}
        incremental_state["beams"] = parted
    return chosen


def keeps_order(order: Tensor, rows: int) -> bool:
    """Whether ``order`` leaves all rows in place; always false on a GPU, where asking would wait for the device."""
    return order.is_cpu and order.numel() == rows and torch.equal(order, torch.arange(rows))
