"""The layers in pure PyTorch, and an encoder-decoder of them.

Nothing here imports anything but torch and this room, by relative imports: the files train, are exported and translate.
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
