"""Translation without self-attention: ResMLP encoder-decoders for fairseq.

``--user-dir resmlp_mt`` imports this package, which registers the model and its presets.
"""

import logging

# Importing fairseq would greet every command with the wish for tensorboardX, which nothing here needs.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

from resmlp_mt.checkpoints import (  # noqa: E402
    allow_fairseq_checkpoints,
    copy_checkpoints_atomically,
    refuse_bad_checkpoints,
)
from resmlp_mt.command_line_help import show_model_options  # noqa: E402
from resmlp_mt.fairseq_mistakes import tell_mistakes_in_one_line  # noqa: E402
from resmlp_mt.models import ResMLPTransformerModel  # noqa: E402

__version__ = "0.1.0"
__all__ = ["ResMLPTransformerModel"]

allow_fairseq_checkpoints()
refuse_bad_checkpoints()
copy_checkpoints_atomically()
show_model_options()
tell_mistakes_in_one_line()
