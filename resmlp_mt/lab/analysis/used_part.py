"""The part of A that training used: it is as large as the longest sentence could be, and sentences are short.

What no sentence of the training reached is as it was initialized, and what few reached is mostly noise.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resmlp_mt.lab.analysis.matrices import MixingMatrix

SHARE = 0.01
"""Used are the positions before the first whose bias had less than this share of the largest squared gradients."""

BUFFERS = "version", "_float_tensor"
"""Ends of names that fairseq's models keep beside their parameters."""

Lengths = dict[str, int]


@dataclass(frozen=True)
class UsedPart:
    """How much of A to look at.

    Attributes:
        lengths: T for ``"encoder"`` and ``"decoder"``: ``A[:T,:T]`` is used
        how: in words, how that was found
    """

    lengths: Lengths
    how: str

    def of(self, mixing: MixingMatrix) -> MixingMatrix:
        return mixing.up_to(self.lengths[mixing.side])


def given(length: int, mixings: Iterable[MixingMatrix]) -> UsedPart:
    """A length that the user chose; a side with fewer positions is used whole."""
    return UsedPart({mixing.side: min(length, mixing.length) for mixing in mixings}, "as given by --length")


def found(lengths_by_gradient: Lengths | None, lengths_by_bias: Lengths, mixings: Iterable[MixingMatrix]) -> UsedPart:
    """The best that there is to go by."""
    if lengths_by_gradient:
        return UsedPart(
            lengths_by_gradient,
            "found from the optimizer's state: each position's bias b had at least "
            f"{SHARE:.0%} of the squared gradients of the position that had most",
        )
    if lengths_by_bias:
        return UsedPart(
            lengths_by_bias,
            "found from the biases b, which start at zero: up to the last position that any sentence of the training "
            "reached. Positions that few sentences reached are mostly noise; --length, or a checkpoint that still "
            "has its optimizer's state, leaves them out",
        )
    return UsedPart(
        {mixing.side: mixing.length for mixing in mixings},
        "all of A: every bias b is zero, as before training, so nothing tells what is used; --length does",
    )


def by_gradient(checkpoint: Mapping[str, Any], mixings: Iterable[MixingMatrix]) -> Lengths | None:
    """The positions of each side that sentences of the training reached often.

    Args:
        checkpoint: with the state of Adagrad or Adam, which remember squared gradients

    Returns:
        nothing for other optimizers and for checkpoints without such a state
    """
    squared = squared_gradients(checkpoint)
    if not squared:
        return None
    lengths: Lengths = {}
    for mixing in mixings:
        if bias_of(mixing) not in squared:  # a mixing of one's own may have none
            continue
        by_position = squared[bias_of(mixing)].reshape(-1, mixing.length).sum(0)
        if by_position.max() > 0:
            often = by_position >= SHARE * by_position.max()  # a single sentence far behind may be loud, too
            lengths[mixing.side] = max(lengths.get(mixing.side, 1), int(often.long().cumprod(0).sum()))
    return lengths if {mixing.side for mixing in mixings} == lengths.keys() else None


def by_bias(model: Mapping[str, Tensor], mixings: Iterable[MixingMatrix]) -> Lengths:
    """The positions of each side that any sentence of the training reached; nothing for an untrained model.

    b starts at zero, and b of a position gets a gradient just where a sentence has that position.
    """
    lengths: Lengths = {}
    for mixing in mixings:
        if bias_of(mixing) not in model:
            continue
        reached = model[bias_of(mixing)].reshape(-1, mixing.length).ne(0).any(0).nonzero()
        if len(reached):
            lengths[mixing.side] = max(lengths.get(mixing.side, 0), int(reached.max()) + 1)
    return lengths if {mixing.side for mixing in mixings} == lengths.keys() else {}


def bias_of(mixing: MixingMatrix) -> str:
    return f"{mixing.key}.bias"


def squared_gradients(checkpoint: Mapping[str, Any]) -> dict[str, Tensor]:
    """For each parameter the squared gradients that Adagrad (``sum``) or Adam (``exp_avg_sq``) remembers.

    The state knows parameters by their order alone, or, in ``--fp16``, as one vector of all of them.

    Returns:
        nothing where there is no such state, or where it does not fit the parameters
    """
    states = (checkpoint.get("last_optimizer_state") or {}).get("state") or {}
    if not isinstance(states, dict) or not all(type(key) is int and isinstance(states[key], dict) for key in states):
        return {}
    records = [states[number].get("sum", states[number].get("exp_avg_sq")) for number in sorted(states)]
    if not records or not all(isinstance(record, Tensor) for record in records):
        return {}
    parameters = {}
    seen = set()
    for name, tensor in checkpoint["model"].items():
        place = tensor.data_ptr(), tensor.shape
        if not name.endswith(BUFFERS) and place not in seen:  # a shared embedding is one parameter with several names
            parameters[name] = tensor
            seen.add(place)
    everything = torch.cat([record.flatten() for record in records])
    if everything.numel() != sum(tensor.numel() for tensor in parameters.values()):
        return {}
    parts = everything.split([tensor.numel() for tensor in parameters.values()])
    return {name: part.view(parameters[name].shape) for name, part in zip(parameters, parts, strict=True)}
