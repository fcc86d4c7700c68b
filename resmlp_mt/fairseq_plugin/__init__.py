"""The model, its options and its presets, registered with fairseq, which is changed where it must be."""

from resmlp_mt.fairseq_plugin import patches
from resmlp_mt.fairseq_plugin.resmlp_transformer import ResMLPTransformerModel

__all__ = ["ResMLPTransformerModel"]

patches.install()
