"""Translation without self-attention: ResMLP encoder-decoders for fairseq.

``--user-dir resmlp_mt`` imports this package, which registers the model and its presets.
"""

from resmlp_mt.checkpoints import allow_fairseq_checkpoints, copy_checkpoints_atomically
from resmlp_mt.models import ResMLPTransformerModel

__version__ = "0.1.0"
__all__ = ["ResMLPTransformerModel"]

allow_fairseq_checkpoints()
copy_checkpoints_atomically()
