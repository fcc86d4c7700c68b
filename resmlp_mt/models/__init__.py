"""The model, its options and its presets, registered with fairseq, which is changed where it must be."""

from resmlp_mt import fairseq_patches
from resmlp_mt.models.resmlp_transformer import ResMLPTransformerModel

__all__ = ["ResMLPTransformerModel"]

fairseq_patches.install()
