"""The encoder layer and the decoder layer, made of residual branches.

Every branch is ``x + dropout(Aff(f(Aff(x))))``; what differs is f: token mixing, cross-attention or a channel MLP
(Touvron et al. 2021, section 2 and "Sequence-to-sequence ResMLP"). ``norm="layernorm"`` has a LayerNorm in the place of
the first Aff; the second, which is the LayerScale, stays. Activations are T x B x C.

For inference a branch folds its two Aff into f (``fold_``): what they do to the channels moves into the weights beside
them, or, for linear token mixing, which commutes with a scaling of channels, into one scale and one offset after it.
What f cannot take in stays.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .activation import ACTIVATIONS
from .affine import Aff
from .cross_attention import CrossAttention, Source
from .dropout import Dropout
from .mixing_kinds import TOKEN_MIXINGS
from .norm import NORMS, absorb_input_affine_, absorb_output_affine_, split
from .recompute import of_recomputed
from .token_mixing import Keep, Mixing


@dataclass(frozen=True)
class LayerConfig:
    """The sizes and kinds of a layer.

    Attributes:
        dim: channels C
        hidden_dim: channels between W1 and W2, 4 C in the paper
        positions: N, of the mixing's matrices
        causal: no position reads a later one; for a decoder
        source_dim: channels C' of the encoder, for a decoder; 0: no cross-attention
        attention_heads: of the cross-attention
        dropout, attention_dropout, activation_dropout: probabilities
        layerscale_init: start of the scale that ends each branch
        norm, activation: by the names of NORMS and ACTIVATIONS
        token_mixing: by the names of TOKEN_MIXINGS; the options of its kinds follow
    """

    dim: int
    hidden_dim: int
    positions: int
    causal: bool = False
    source_dim: int = 0
    attention_heads: int = 1
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    layerscale_init: float = 0.2
    norm: str = "affine"
    activation: str = "gelu"
    token_mixing: str = "linear"
    mixing_heads: int = 1
    mixing_relative: bool = False
    mixing_dropout: float = 0.0
    mixing_band: int = 0
    mixing_expansion: int = 4
    mixing_kernel: int = 3


class ResidualBranch(nn.Module):
    """The frame of a branch: an Aff or another norm before it, an Aff with LayerScale at its end, dropout."""

    def __init__(self, cfg: LayerConfig):
        super().__init__()
        self.pre_affine = NORMS[cfg.norm](cfg.dim)
        self.post_affine: nn.Module = Aff(cfg.dim, cfg.layerscale_init)
        self.dropout = Dropout(cfg.dropout)

    def end(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + dropout(Aff(y))``, T x B x C all"""
        return x + self.dropout(self.post_affine(y))

    def fold_(self) -> None:
        """Fold both Aff, in place and only once; the branch then computes the same with fewer operations."""
        if isinstance(self.post_affine, Aff):
            self.pre_affine, self.post_affine = self._absorb(self.pre_affine, self.post_affine)

    def _absorb(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        """Fold the norm before and the Aff behind as far as that changes nothing; returns what is left of them."""
        raise NotImplementedError


class TokenMixingBranch(ResidualBranch):
    """``x + dropout(Aff(A Aff(x) + b))`` with A over the real positions of each sentence, or what stands for A."""

    def __init__(self, mixing: Mixing, cfg: LayerConfig):
        super().__init__(cfg)
        self.mixing = mixing

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; ``padding`` (T x B) is true at padded positions."""
        return self.end(x, self.mixing(self.mixing.readable(self.pre_affine(x), padding), padding))

    def step(self, x: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The positions that follow those of the steps before, ``S x B x C -> S x B x C``, and the longer past."""
        y, longer = self.mixing.step(self.pre_affine(x), past)
        return self.end(x, y), longer

    def step_over(self, x: Tensor, keep: Keep) -> Tensor:
        """``step`` where the caller keeps the past (``Mixing.step_over``)."""
        return self.end(x, self.mixing.step_over(self.pre_affine(x), keep))

    def _absorb(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
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

    def _absorb(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        left, affine = split(pre)
        absorb_input_affine_(self.attention.q_proj, affine)
        absorb_output_affine_(self.attention.out_proj, post)
        return left, nn.Identity()


class ChannelMLPBranch(ResidualBranch):
    """``x + dropout(Aff(W2 GELU(W1 Aff(x) + b1) + b2))``, the same at every position."""

    def __init__(self, cfg: LayerConfig):
        super().__init__(cfg)
        self.activation_fn = ACTIVATIONS[cfg.activation]
        self.activation_dropout = Dropout(cfg.activation_dropout)
        self.fc1, self.fc2 = nn.Linear(cfg.dim, cfg.hidden_dim), nn.Linear(cfg.hidden_dim, cfg.dim)

    def forward(self, x: Tensor) -> Tensor:
        """``T x B x C -> T x B x C``"""
        if torch.jit.is_scripting():  # type: ignore[attr-defined]
            y = self._narrow(self.activation_fn(self.fc1(self.pre_affine(x))))
        else:
            y = of_recomputed(self._narrow, self.activation_fn, of_recomputed(self.fc1, self.pre_affine, x))
        return self.end(x, y)

    def _narrow(self, hidden: Tensor) -> Tensor:
        return self.fc2(self.activation_dropout(hidden))

    def _absorb(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        left, affine = split(pre)
        absorb_input_affine_(self.fc1, affine)
        absorb_output_affine_(self.fc2, post)
        return left, nn.Identity()


class EncoderLayer(nn.Module):
    """Token mixing, then a channel MLP (Touvron et al. 2021, equations 2 and 3)."""

    def __init__(self, cfg: LayerConfig):
        super().__init__()
        mixing = TOKEN_MIXINGS[cfg.token_mixing](cfg)
        self.mixing = None if mixing is None else TokenMixingBranch(mixing, cfg)
        self.mlp = ChannelMLPBranch(cfg)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; ``padding`` (T x B), if any, is true at padded positions."""
        return self.encode(x, padding)

    def encode(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``forward`` by another name, for a subclass whose ``forward`` has other arguments."""
        if self.mixing is not None:
            x = self.mixing(x, padding)
        return self.mlp(x)


class DecoderLayer(nn.Module):
    """Causal token mixing, cross-attention, channel MLP ("Sequence-to-sequence ResMLP")."""

    def __init__(self, cfg: LayerConfig):
        super().__init__()
        mixing = TOKEN_MIXINGS[cfg.token_mixing](cfg)
        self.mixing = None if mixing is None else TokenMixingBranch(mixing, cfg)
        self.cross_attention = CrossAttentionBranch(cfg) if cfg.source_dim else None
        self.mlp = ChannelMLPBranch(cfg)

    def source(self, memory: Tensor, padding: Tensor | None = None) -> Source | None:
        """What the cross-attention reads of ``memory`` (S x B x C'), with padding (B x S) true at padded positions."""
        return None if self.cross_attention is None else self.cross_attention.attention.source(memory, padding)

    def forward(
        self, x: Tensor, source: Source | None, past: list[Tensor] | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None, list[Tensor]]:
        """``T x B x C -> T x B x C``

        Args:
            source: what ``source`` gave; None: no cross-attention
            past: step by step, what the step before gave, [] at the first; None: all positions at once
            need_weights: also return the cross-attention

        Returns:
            the output; the cross-attention of each head, H x B x T x S, or None; the longer past
        """
        return self.decode(x, source, past, need_weights)

    def decode(
        self, x: Tensor, source: Source | None, past: list[Tensor] | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None, list[Tensor]]:
        """``forward`` by another name, for a subclass whose ``forward`` has other arguments."""
        longer: list[Tensor] = []
        if self.mixing is not None:
            if past is None:
                x = self.mixing(x)
            else:
                x, longer = self.mixing.step(x, past)
        x, weights = self.attend(x, source, need_weights)
        return x, weights, longer

    def step_over(
        self, x: Tensor, source: Source | None, keep: Keep, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Step by step, where the caller keeps the past (``Mixing.step_over``), also without a mixing."""
        if self.mixing is None:
            keep(x)
        else:
            x = self.mixing.step_over(x, keep)
        return self.attend(x, source, need_weights)

    def attend(self, x: Tensor, source: Source | None, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """What follows the mixing: cross-attention, whose weights are returned if needed, and channel MLP."""
        weights: Tensor | None = None
        if self.cross_attention is not None and source is not None:
            x, weights = self.cross_attention(x, source, need_weights)
        return self.mlp(x), weights
