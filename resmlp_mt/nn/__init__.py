"""The layers in pure PyTorch, and an encoder-decoder of them.

Nothing here imports anything but torch and this room, by relative imports: the files train, are exported and translate.
"""

from .affine import Aff
from .config import LayerConfig, ModelConfig
from .encoder_decoder import EncoderDecoder
from .layers import DecoderLayer, EncoderLayer
from .mixing_kinds import register_mixing
from .token_mixing import Mixing, TokenMixing

__all__ = [
    "Aff",
    "DecoderLayer",
    "EncoderDecoder",
    "EncoderLayer",
    "LayerConfig",
    "Mixing",
    "ModelConfig",
    "TokenMixing",
    "register_mixing",
]
