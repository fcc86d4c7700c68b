"""The part of A that training used, and A with the smallest weights of that part set to zero.

A is as large as the longest sentence could be, and sentences are short. What no sentence of the training reached is as
it was initialized, and what few reached is mostly noise.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resmlp_mt.fairseq_plugin import ResMLPTransformerModel
from resmlp_mt.lab.analysis.matrices import MixingMatrix, matrix, mixing_matrices

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


@dataclass(frozen=True)
class UsedPart:
    """How much of A to look at, ``A[:T,:T]`` with T of ``"encoder"`` and ``"decoder"``, and how that was found."""

    lengths: dict[str, int]
    how: str

    def of(self, mixing: MixingMatrix) -> MixingMatrix:
        return mixing.up_to(self.lengths[mixing.side])


def used_part(checkpoint: Mapping[str, Any], mixings: Sequence[MixingMatrix]) -> UsedPart:
    """By the best that a checkpoint has to go by."""
    if lengths := _lengths(squared_gradients(checkpoint), mixings, SHARE):
        return UsedPart(lengths, BY_GRADIENT)
    # b starts at zero, and b of a position gets a gradient just where a sentence has that position
    if lengths := _lengths(checkpoint["model"], mixings, 0):
        return UsedPart(lengths, BY_BIAS)
    return UsedPart({mixing.side: mixing.length for mixing in mixings}, NOTHING_TELLS)


def _lengths(parameters: Mapping[str, Tensor], mixings: Sequence[MixingMatrix], share: float) -> dict[str, int]:
    """Of each side the longest that its biases tell, up to the first with too small a share; {} if one has none.

    One sentence that reaches far may have large gradients there too: what counts is where they begin to be small.
    """
    lengths: dict[str, int] = {}
    for mixing in mixings:
        bias = parameters.get(f"{mixing.key}.bias", torch.zeros(mixing.length))
        size = bias.float().abs().reshape(-1, mixing.length).sum(0)
        found = int((size > share * size.max()).long().cumprod(0).sum())
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
    sizes = [tensor.numel() for tensor in parameters.values()]
    if everything.numel() != sum(sizes):
        return {}
    return {
        name: part.view(parameters[name].shape) for name, part in zip(parameters, everything.split(sizes), strict=True)
    }


def pruned(
    checkpoint: Mapping[str, Any], model: ResMLPTransformerModel, share: float, used: UsedPart
) -> dict[str, Any]:
    """A checkpoint whose every A has lost its smallest weights, and that has no optimizer state.

    In the used part of each matrix (of each head; in the decoder of its lower triangle) the given share of the weights,
    rounded down, becomes zero: those that are smallest in magnitude.

    Args:
        checkpoint: as ``load_checkpoint`` gives it; not changed
        model: the checkpoint's; not changed
        share: from 0 to 1
    """
    weights = dict(checkpoint["model"])
    for mixing in mixing_matrices(model):
        key = f"{mixing.key}.weight"
        bare = copy.deepcopy(model.get_submodule(mixing.key))
        weight = bare.weight.detach().clone()
        torch.nn.init.zeros_(bare.weight)
        beside = matrix(bare)  # what A has beside its weight: a relative term
        chosen = smallest(used.of(mixing), share)
        length = chosen.size(-1)
        weight.view_as(beside)[:, :length, :length][chosen] = 0.0 - beside[:, :length, :length][chosen]
        weights[key] = weight.to(weights[key].dtype)
    *before, last = checkpoint["optimizer_history"]
    extra = checkpoint.get("extra_state") or {}
    return {
        **checkpoint,
        "model": weights,
        "optimizer_history": [*before, {**last, "optimizer_name": "none (pruned checkpoint)"}],
        "last_optimizer_state": {},
        "extra_state": {key: value for key, value in extra.items() if not key.startswith("ema")},  # not pruned
    }


def smallest(mixing: MixingMatrix, share: float) -> Tensor:
    """H x T x T, true at the given share of the entries of each head, those that are smallest in magnitude."""
    number = int(share * int(mixing.counts.sum()) + 1e-9)  # 0.29 of 100 is 29
    sizes = mixing.weights.abs().masked_fill(~mixing.counts, torch.inf).flatten(1)
    order = sizes.argsort(dim=1, stable=True)[:, :number]
    return torch.zeros_like(sizes, dtype=torch.bool).scatter(1, order, True).view_as(mixing.weights)
