"""The layers in pure PyTorch: Aff, token mixing of every kind, cross-attention, residual branches, layers.

Nothing here imports anything but torch and this room, by relative imports: the files train, are exported and translate.
"""

from .affine import Aff
from .layers import DecoderLayer, EncoderLayer, LayerConfig
from .mixing_kinds import register_mixing
from .token_mixing import Mixing, TokenMixing

__all__ = ["Aff", "DecoderLayer", "EncoderLayer", "LayerConfig", "Mixing", "TokenMixing", "register_mixing"]
