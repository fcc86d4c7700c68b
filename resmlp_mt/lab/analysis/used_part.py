"""The part of A that training used: it is as large as the longest sentence could be, and sentences are short.

What no sentence of the training reached is as it was initialized, and what few reached is mostly noise.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resmlp_mt.lab.analysis.matrices import MixingMatrix

SHARE = 0.01
"""Used are the positions before the first whose bias had less than this share of the largest squared gradients."""

BUFFERS = "version", "_float_tensor"
"""Ends of names that fairseq's models keep beside their parameters."""

BY_GRADIENT = (
    "found from the optimizer's state: each position's bias b had at least "
    f"{SHARE:.0%} of the squared gradients of the position that had most"
)
BY_BIAS = (
    "found from the biases b, which start at zero: up to the last position that any sentence of the training reached. "
    "Positions that few sentences reached are mostly noise; --length, or a checkpoint that still has its optimizer's "
    "state, leaves them out"
)
NOTHING_TELLS = "all of A: every bias b is zero, as before training, so nothing tells what is used; --length does"

Lengths = dict[str, int]
"""T for ``"encoder"`` and ``"decoder"``: ``A[:T,:T]`` is used. Empty where nothing tells."""


@dataclass(frozen=True)
class UsedPart:
    """How much of A to look at, and, in words, how that was found."""

    lengths: Lengths
    how: str

    def of(self, mixing: MixingMatrix) -> MixingMatrix:
        return mixing.up_to(self.lengths[mixing.side])


def used_of(mixings: Sequence[MixingMatrix], length: int | None, by_gradient: Lengths, by_bias: Lengths) -> UsedPart:
    """The length that the user chose, or the best that there is to go by."""
    if length is not None:
        return UsedPart({mixing.side: min(length, mixing.length) for mixing in mixings}, "as given by --length")
    if by_gradient:
        return UsedPart(by_gradient, BY_GRADIENT)
    if by_bias:
        return UsedPart(by_bias, BY_BIAS)
    return UsedPart({mixing.side: mixing.length for mixing in mixings}, NOTHING_TELLS)


def by_gradient(checkpoint: Mapping[str, Any], mixings: Iterable[MixingMatrix]) -> Lengths:
    """The positions of each side that sentences of the training reached often, as Adagrad's or Adam's state tells."""

    def often(squared: Tensor) -> int:
        reached = squared.sum(0) >= SHARE * squared.sum(0).max()  # one sentence far behind may be loud, too
        return int(reached.long().cumprod(0).sum()) if squared.any() else 0

    return _lengths(squared_gradients(checkpoint), mixings, often)


def by_bias(model: Mapping[str, Tensor], mixings: Iterable[MixingMatrix]) -> Lengths:
    """The positions of each side that any sentence of the training reached; nothing for an untrained model.

    b starts at zero, and b of a position gets a gradient just where a sentence has that position.
    """

    def last(bias: Tensor) -> int:
        reached = bias.ne(0).any(0).nonzero()
        return int(reached.max()) + 1 if len(reached) else 0

    return _lengths(model, mixings, last)


def _lengths(parameters: Mapping[str, Tensor], mixings: Iterable[MixingMatrix], length_of: Any) -> Lengths:
    """The longest length of each side, of what is there for its biases; nothing if a side has none."""
    lengths: Lengths = {}
    for mixing in mixings:
        name = f"{mixing.key}.bias"
        found = length_of(parameters[name].reshape(-1, mixing.length)) if name in parameters else 0
        lengths[mixing.side] = max(lengths.get(mixing.side, 0), found)
    return lengths if all(lengths.values()) else {}


def squared_gradients(checkpoint: Mapping[str, Any]) -> dict[str, Tensor]:
    """For each parameter the squared gradients that Adagrad (``sum``) or Adam (``exp_avg_sq``) remembers.

    The state knows parameters by their order alone, or, in ``--fp16``, as one vector of all of them. Nothing where
    there is no such state, or where it does not fit the parameters.
    """
    states = (checkpoint.get("last_optimizer_state") or {}).get("state") or {}
    records = [states[number].get("sum", states[number].get("exp_avg_sq")) for number in sorted(states)]
    if not records or not all(isinstance(record, Tensor) for record in records):
        return {}
    parameters, seen = {}, set()
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
