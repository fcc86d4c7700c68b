"""The layers in pure PyTorch: Aff, token mixing of every kind, cross-attention, residual branches, layers, and an
encoder-decoder of them.

Nothing here imports anything but torch and this room, by relative imports: the files train, are exported and translate.
"""

from .affine import Aff
from .encoder_decoder import EncoderDecoder, ModelConfig
from .layers import DecoderLayer, EncoderLayer, LayerConfig
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
