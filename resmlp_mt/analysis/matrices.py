"""The matrices of a checkpoint: every A as the model applies it, and those of the MLPs and the cross-attention."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from resmlp_mt.errors import UserError

StateDict = Mapping[str, Tensor]

_MIXING = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.mixing\.mixing\.weight")
_DENSE = re.compile(
    r"(encoder|decoder)\.layers\.(\d+)\.(?:mlp\.(fc[12])|cross_attention\.attention\.([qkv]|out)_proj)\.weight"
)
_SHOWN = {"fc1": "W1", "fc2": "W2"}


@dataclass(frozen=True)
class Mixing:
    """A of one layer.

    Attributes:
        side: ``"encoder"`` or ``"decoder"``
        layer: counted from 1
        key: of its weight in the state dict
        weights: H x T x T, one matrix for each head (H = 1: one for all channels); zero where a causal A is not read
    """

    side: str
    layer: int
    key: str
    weights: Tensor

    @property
    def name(self) -> str:
        return f"{self.side} {self.layer}"

    @property
    def causal(self) -> bool:
        """Whether only the lower triangle counts."""
        return self.side == "decoder"

    @property
    def length(self) -> int:
        return self.weights.size(-1)

    @property
    def counts(self) -> Tensor:
        """T x T, true where an entry is part of A: everywhere, or in the lower triangle."""
        everywhere = torch.ones(self.length, self.length, dtype=torch.bool)
        return everywhere.tril() if self.causal else everywhere

    def up_to(self, length: int) -> "Mixing":
        """The first positions alone."""
        return replace(self, weights=self.weights[:, :length, :length])


def mixing_matrices(model: StateDict) -> list[Mixing]:
    """Every A of a model, the encoder's first, layer by layer.

    Args:
        model: the state dict of a checkpoint

    Returns:
        nothing for a model whose token mixing has no matrix over positions
    """
    found = []
    for key in model:
        match = _MIXING.fullmatch(key)
        if match and model[key].dim() in (2, 3) and 0 < model[key].size(-1) == model[key].size(-2):
            side, layer = match[1], int(match[2]) + 1
            found.append(Mixing(side, layer, key, effective_matrix(model, key)))
    return sorted(found, key=lambda mixing: (mixing.side == "decoder", mixing.layer))


def effective_matrix(model: StateDict, key: str) -> Tensor:
    """H x N x N: A as the mixing with this weight applies it.

    Here belongs whatever else a mixing adds to its weight; see ``beside_the_weight``.
    """
    weight = model[key].float()
    matrix = weight.view(-1, *weight.shape[-2:]) + beside_the_weight(model, key)
    return matrix.tril() if key.startswith("decoder") else matrix


def beside_the_weight(model: StateDict, key: str) -> Tensor:
    """What a mixing adds to its weight before it is applied, H x N x N or of a shape that broadcasts to it.

    Raises:
        UserError: the mixing has a parameter that nothing here knows, so that A would be shown wrongly, or one that
            does not fit its weight
    """
    mixing = key.removesuffix("weight")
    for other in model:
        if other.startswith(mixing) and other.removeprefix(mixing) not in ("weight", "bias", "relative"):
            raise UserError(f"{other}: a parameter of the mixing that is not understood, and A may depend on it")
    if f"{mixing}relative" not in model:
        return torch.zeros(1, 1, 1)
    relative, positions = model[f"{mixing}relative"].float(), model[key].size(-1)
    if relative.shape not in [(*model[key].shape[:-2], distances) for distances in (positions, 2 * positions - 1)]:
        raise UserError(f"{mixing}relative: does not fit {key} of {' x '.join(map(str, model[key].shape))}")
    by_head = relative.view(-1, relative.size(-1))  # r of distances from 1 - N to N - 1, up to 0 in a decoder
    distance = torch.arange(positions) - torch.arange(positions).unsqueeze(1)
    return by_head[:, (distance + positions - 1).clamp(max=relative.size(-1) - 1)]


@dataclass(frozen=True)
class Dense:
    """A matrix over channels.

    Attributes:
        matrix: ``"W1"`` and ``"W2"`` of the MLP, ``"q"``, ``"k"``, ``"v"`` and ``"out"`` of the cross-attention
    """

    side: str
    layer: int
    matrix: str
    weight: Tensor


def dense_matrices(model: StateDict) -> list[Dense]:
    """Both matrices of every MLP, and the cross-attention's, layer by layer.

    Raises:
        UserError: one of them holds no numbers
    """
    found = []
    for key, weight in model.items():
        match = _DENSE.fullmatch(key)
        if match:
            if not weight.is_floating_point() or not weight.numel() or not torch.isfinite(weight).all():
                raise UserError(f"{key}: no finite weights: the training diverged, or the file is of another model")
            side, layer, mlp, attention = match.groups()
            found.append(Dense(side, int(layer) + 1, _SHOWN.get(mlp, attention), weight))
    order = ["W1", "W2", "q", "k", "v", "out"]
    return sorted(found, key=lambda dense: (dense.side == "decoder", dense.layer, order.index(dense.matrix)))
