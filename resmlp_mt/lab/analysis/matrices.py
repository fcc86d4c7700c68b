"""The matrices of a model: every A as the model applies it, and those of the MLPs and the cross-attention."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from resmlp_mt.fairseq_plugin import ResMLPTransformerModel
from resmlp_mt.nn import TokenMixing

SIDES = "encoder", "decoder"


@dataclass(frozen=True)
class MixingMatrix:
    """A of one layer.

    ``weights`` are H x T x T, one matrix for each head (H = 1: one for all channels), and zero where a causal A is not
    read; ``layer`` counts from 1; ``key`` is that of its module in the model.
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
        return self.side == "decoder"

    @property
    def length(self) -> int:
        return self.weights.size(-1)

    @property
    def counts(self) -> Tensor:
        """T x T, true where an entry is part of A: everywhere, or in the lower triangle."""
        everywhere = torch.ones(self.length, self.length, dtype=torch.bool)
        return everywhere.tril() if self.causal else everywhere

    def up_to(self, length: int) -> "MixingMatrix":
        """The first positions alone."""
        return replace(self, weights=self.weights[:, :length, :length])


def matrix(mixing: TokenMixing) -> Tensor:
    """H x N x N: A as a mixing applies it, all of its rows."""
    rows = mixing.rows(0, mixing.max_positions).detach()
    return rows.view(-1, *rows.shape[-2:])


def mixing_matrices(model: ResMLPTransformerModel) -> list[MixingMatrix]:
    """Every A of a model, the encoder's first; none of a side whose token mixing is no matrix over positions."""
    found = []
    for side, number, layer in layers_of(model):
        if layer.mixing is not None and isinstance(layer.mixing.mixing, TokenMixing):
            key = f"{side}.layers.{number - 1}.mixing.mixing"
            found.append(MixingMatrix(side, number, key, matrix(layer.mixing.mixing)))
    return found


@dataclass(frozen=True)
class Dense:
    """A matrix over channels: ``W1`` or ``W2`` of the MLP, ``q``, ``k``, ``v`` or ``out`` of the cross-attention."""

    side: str
    layer: int
    matrix: str
    weight: Tensor


def dense_matrices(model: ResMLPTransformerModel) -> list[Dense]:
    """Both matrices of every MLP, and the cross-attention's, layer by layer."""
    found = []
    for side, number, layer in layers_of(model):
        matrices = {"W1": layer.mlp.fc1, "W2": layer.mlp.fc2}
        if side == "decoder" and layer.cross_attention is not None:
            attention = layer.cross_attention.attention
            matrices |= {name: getattr(attention, f"{name}_proj") for name in ("q", "k", "v", "out")}
        found += [Dense(side, number, name, linear.weight.detach()) for name, linear in matrices.items()]
    return found


def layers_of(model: ResMLPTransformerModel) -> Iterator[tuple[str, int, Any]]:
    """Side, number and module of each layer."""
    for side in SIDES:
        for number, layer in enumerate(getattr(model, side).layers, start=1):
            yield side, number, layer
