"""The model, its options and its presets."""

from resmlp_mt.models.resmlp_transformer import ResMLPTransformerModel

__all__ = ["ResMLPTransformerModel"]
