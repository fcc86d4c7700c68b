"""A user's own token mixing: each position reads only the positions near it."""

import torch
from torch import Tensor

import resmlp_mt.fairseq_plugin  # noqa: F401  (registers --arch resmlp_transformer and its presets)
from resmlp_mt.nn import LayerConfig, TokenMixing, register_mixing


@register_mixing("window")
class WindowMixing(TokenMixing):
    """The paper's mixing, with an A that is zero beyond a distance; it has no additional parameters."""

    def __init__(self, cfg: LayerConfig):
        super().__init__(cfg.positions, cfg.mixing_heads, cfg.mixing_relative, cfg.causal, cfg.mixing_dropout)
        self.reach = 3  # positions to each side; in the decoder, which reads no later ones, to the left

    def rows(self, start: int, end: int) -> Tensor:
        """Return rows ``start`` to ``end`` of ``A[:end,:end]``: S x T, or H x S x T with heads."""
        positions = torch.arange(end, device=self.weight.device)
        distance = (positions[start:, None] - positions).abs()
        return super().rows(start, end).masked_fill(distance > self.reach, 0.0)
