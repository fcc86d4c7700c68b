"""A with its smallest weights set to zero, so that what they are worth can be scored."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin import ResMLPTransformerModel
from resmlp_mt.lab.analysis.matrices import MixingMatrix, matrix, mixing_matrices
from resmlp_mt.lab.analysis.used_part import UsedPart
from resmlp_mt.nn import TokenMixing


def pruned(
    checkpoint: Mapping[str, Any], model: ResMLPTransformerModel, share: float, used: UsedPart
) -> dict[str, Any]:
    """A checkpoint whose every A has lost its smallest weights, and that has no optimizer state.

    In the used part of each matrix (of each head; in the decoder of its lower triangle) the given share of the weights,
    rounded down, becomes zero: those that are smallest in magnitude.

    Args:
        checkpoint: as ``load_checkpoint`` gives it; not changed
        model: the checkpoint's; left as it is
        share: from 0 to 1
    """
    weights = dict(checkpoint["model"])
    for mixing in mixing_matrices(model):
        key = f"{mixing.key}.weight"
        without = _without(smallest(used.of(mixing), share), model.get_submodule(mixing.key), mixing)
        weights[key] = without.to(weights[key].dtype)
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
    chosen = mixing.counts.expand_as(mixing.weights).clone()
    for head, weights in zip(chosen, mixing.weights, strict=True):
        entries = weights[mixing.counts].abs()
        number = int(share * len(entries) + 1e-9)  # 0.29 of 100 is 29
        kept = entries.argsort(stable=True)[number:]
        inside = head[mixing.counts]
        inside[kept] = False
        head[mixing.counts] = inside
    return chosen


@torch.no_grad()
def _without(chosen: Tensor, module: TokenMixing, mixing: MixingMatrix) -> Tensor:
    """The weight with which A is zero at the chosen entries of its first positions, and elsewhere as it was."""
    length, before = chosen.size(-1), module.weight.clone()
    module.weight.zero_()
    beside = matrix(module)[:, :length, :length]  # what A has beside its weight, such as a term r
    result = before.clone()
    result.view_as(mixing.weights)[:, :length, :length][chosen] = 0.0 - beside[chosen]
    module.weight.copy_(result)
    left = matrix(module)[:, :length, :length][chosen]
    module.weight.copy_(before)
    if left.any():
        raise UserError(f"A of {mixing.name} cannot be pruned: no value of its weight makes single entries zero")
    return result
