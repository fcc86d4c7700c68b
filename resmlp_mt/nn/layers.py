"""The encoder and decoder layers, made of residual branches (Touvron et al. 2021, section 2). Inputs are T x B x C."""

from torch import Tensor, nn

from .affine import NORMS, Aff, fold_around_
from .config import LayerConfig
from .cross_attention import CrossAttention, Source
from .elementwise import ACTIVATIONS, Dropout, recompute_input
from .memory import Memory
from .mixing_kinds import TOKEN_MIXINGS
from .positions import zero_padding
from .token_mixing import Mixing


class ResidualBranch(nn.Module):
    """``x + dropout(Aff(f(Aff(x))))``: the first Aff may be another norm, the second is the LayerScale."""

    def __init__(self, cfg: LayerConfig):
        super().__init__()
        self.pre_affine = NORMS[cfg.norm](cfg.dim)
        self.post_affine: nn.Module = Aff(cfg.dim, cfg.layerscale_init)
        self.dropout = Dropout(cfg.dropout)
        self.is_folded = False

    def end(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + dropout(Aff(y))``"""
        return x + self.dropout(self.post_affine(y))

    def fold_(self) -> None:
        """Fold both Aff into f where that is exact, in place; a second call changes nothing."""
        if isinstance(self.post_affine, Aff) and not self.is_folded:
            self.is_folded = True
            self.pre_affine, self.post_affine = self.folded(self.pre_affine, self.post_affine)

    def folded(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        """Fold both into f and return what is left of them."""
        raise NotImplementedError


class TokenMixingBranch(ResidualBranch):
    """``x + dropout(Aff(A Aff(x) + b))``, or another mixing instead of ``A x + b``."""

    def __init__(self, mixing: Mixing, cfg: LayerConfig):
        super().__init__(cfg)
        self.mixing = mixing

    def forward(self, x: Tensor, padding: Tensor | None = None, memory: Memory | None = None) -> Tensor:
        """Mix all positions, or those after the ones in memory, ``T x B x C -> T x B x C``; ``padding`` is T x B."""
        y = zero_padding(self.pre_affine(x), padding)
        return self.end(x, self.mixing(y, padding) if memory is None else self.mixing.mix(y, memory))

    def folded(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        return self.mixing.fold_(pre, post)


class CrossAttentionBranch(ResidualBranch):
    """``x + dropout(Aff(MultiheadAttention(Aff(x), encoder)))``"""

    def __init__(self, cfg: LayerConfig):
        super().__init__(cfg)
        self.attention = CrossAttention(cfg.dim, cfg.source_dim, cfg.attention_heads, cfg.attention_dropout)

    def forward(self, x: Tensor, source: Source, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """``T x B x C -> T x B x C`` and, if needed, the attention of each head, H x B x T x S."""
        y, weights = self.attention(self.pre_affine(x), source, need_weights)
        return self.end(x, y), weights

    def folded(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        return fold_around_(pre, [self.attention.q_proj], self.attention.out_proj, post)


class ChannelMLPBranch(ResidualBranch):
    """``x + dropout(Aff(W2 GELU(W1 Aff(x) + b1) + b2))``, the same at every position."""

    def __init__(self, cfg: LayerConfig):
        super().__init__(cfg)
        self.activation_fn = ACTIVATIONS[cfg.activation]
        self.activation_dropout = Dropout(cfg.activation_dropout)
        self.fc1, self.fc2 = nn.Linear(cfg.dim, cfg.hidden_dim), nn.Linear(cfg.hidden_dim, cfg.dim)

    def forward(self, x: Tensor) -> Tensor:
        """``T x B x C -> T x B x C``"""
        hidden = recompute_input(self.fc1, self.pre_affine, x)
        return self.end(x, recompute_input(lambda y: self.fc2(self.activation_dropout(y)), self.activation_fn, hidden))

    def folded(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        return fold_around_(pre, [self.fc1], self.fc2, post)


class Layer(nn.Module):
    """The branches of a layer: token mixing, cross-attention, channel MLP; the first two may be missing."""

    def __init__(self, cfg: LayerConfig):
        super().__init__()
        mixing = TOKEN_MIXINGS[cfg.token_mixing](cfg)
        self.mixing = None if mixing is None else TokenMixingBranch(mixing, cfg)
        self.cross_attention = CrossAttentionBranch(cfg) if cfg.source_dim else None
        self.mlp = ChannelMLPBranch(cfg)


class EncoderLayer(Layer):
    """Token mixing, then a channel MLP (Touvron et al. 2021, equations 2 and 3)."""

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; ``padding`` (T x B), if any, is true at padded positions."""
        if self.mixing is not None:
            x = self.mixing(x, padding)
        return self.mlp(x)


class DecoderLayer(Layer):
    """Causal token mixing, cross-attention, channel MLP ("Sequence-to-sequence ResMLP")."""

    def source(self, encoded: Tensor, padding: Tensor | None = None) -> Source | None:
        """Return keys and values of the encoding, S x B x C'; ``padding`` (B x S) is true at padded positions."""
        return None if self.cross_attention is None else self.cross_attention.attention.source(encoded, padding)

    def forward(
        self, x: Tensor, encoded: Tensor, padding: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Compute all positions, T x B x C; ``encoded`` and ``padding`` as in ``source``, results as in ``step``."""
        return self.step(x, self.source(encoded, padding), None, need_weights)

    def step(
        self, x: Tensor, source: Source | None, memory: Memory | None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Compute all positions, or those after memory, T x B x C; also return each head's attention, H x B x T x S."""
        weights: Tensor | None = None
        if self.mixing is not None:
            x = self.mixing(x, memory=memory)
        if self.cross_attention is not None and source is not None:
            x, weights = self.cross_attention(x, source, need_weights)
        return self.mlp(x), weights
