"""A token mixing of one's own: a position reads those alone that are near."""

import torch
from torch import Tensor

import resmlp_mt.fairseq_plugin  # noqa: F401  (registers --arch resmlp_transformer and its presets)
from resmlp_mt.nn import LayerConfig, TokenMixing, register_mixing


@register_mixing("window")
class WindowMixing(TokenMixing):
    """The paper's mixing with an A that is zero beyond a distance, and no parameter more."""

    def __init__(self, cfg: LayerConfig):
        super().__init__(cfg.positions, cfg.mixing_heads, cfg.mixing_relative, cfg.causal)
        self.reach = 3  # positions to each side; in the decoder, which reads no later ones, to the left

    def rows(self, start: int, end: int) -> Tensor:
        """Rows ``start`` to ``end`` of ``A[:end,:end]``: S x T, with heads H x S x T."""
        positions = torch.arange(end, device=self.weight.device)
        distance = (positions[start:, None] - positions).abs()
        return super().rows(start, end).masked_fill(distance > self.reach, 0.0)
