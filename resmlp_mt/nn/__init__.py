"""The layers in pure PyTorch, and an encoder-decoder built from them.

These files import only torch and each other (relatively): training, translation and exported folders all use them.
"""

from .affine import Aff as Aff
from .config import LayerConfig as LayerConfig
from .config import ModelConfig as ModelConfig
from .encoder_decoder import EncoderDecoder as EncoderDecoder
from .layers import DecoderLayer as DecoderLayer
from .layers import EncoderLayer as EncoderLayer
from .mixing_kinds import register_mixing as register_mixing
from .token_mixing import Mixing as Mixing
from .token_mixing import TokenMixing as TokenMixing
