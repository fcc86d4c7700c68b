"""The building blocks: Aff, token mixing, and the layers made of them."""

from resmlp_mt.modules.affine import Aff
from resmlp_mt.modules.resmlp_layer import ResMLPDecoderLayer, ResMLPEncoderLayer
from resmlp_mt.modules.token_mixing import CausalTokenMixing, TokenMixing

__all__ = ["Aff", "CausalTokenMixing", "ResMLPDecoderLayer", "ResMLPEncoderLayer", "TokenMixing"]
