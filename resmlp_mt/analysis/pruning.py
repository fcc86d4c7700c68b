"""A with its smallest weights set to zero, so that what they are worth can be scored."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from resmlp_mt.analysis.matrices import Mixing, beside_the_weight, mixing_matrices
from resmlp_mt.analysis.used_part import UsedPart


def pruned(checkpoint: Mapping[str, Any], share: float, used: UsedPart) -> dict[str, Any]:
    """A checkpoint whose every A has lost its smallest weights.

    In the used part of each matrix (of each head; in the decoder of its lower triangle) the given share of the weights,
    rounded down, becomes zero: those that are smallest in magnitude. Like an averaged checkpoint, the result has no
    optimizer state.

    Args:
        checkpoint: as ``load`` gives it; not changed
        share: from 0 to 1
    """
    model = dict(checkpoint["model"])
    for mixing in mixing_matrices(model):
        model[mixing.key] = _without(smallest(used.of(mixing), share), model, mixing)
    *before, last = checkpoint["optimizer_history"]
    extra = checkpoint.get("extra_state") or {}
    return {
        **checkpoint,
        "model": model,
        "optimizer_history": [*before, {**last, "optimizer_name": "none (pruned checkpoint)"}],
        "last_optimizer_state": {},
        "extra_state": {key: value for key, value in extra.items() if not key.startswith("ema")},  # not pruned
    }


def smallest(mixing: Mixing, share: float) -> Tensor:
    """H x T x T, true at the given share of the entries of each head, those that are smallest in magnitude."""
    chosen = mixing.counts.expand_as(mixing.weights).clone()
    for head, matrix in zip(chosen, mixing.weights, strict=True):
        entries = matrix[mixing.counts].abs()
        number = int(share * len(entries) + 1e-9)  # 0.29 of 100 is 29
        kept = entries.argsort(stable=True)[number:]
        inside = head[mixing.counts]
        inside[kept] = False
        head[mixing.counts] = inside
    return chosen


def _without(chosen: Tensor, model: Mapping[str, Tensor], mixing: Mixing) -> Tensor:
    """The weight with which A is zero at the chosen entries of its first positions."""
    length = chosen.size(-1)
    weight, beside = model[mixing.key].clone(), beside_the_weight(model, mixing.key).expand_as(mixing.weights)
    part = weight.view_as(mixing.weights)[:, :length, :length]
    part[chosen] = (0 - beside[:, :length, :length])[chosen].to(part)
    return weight
