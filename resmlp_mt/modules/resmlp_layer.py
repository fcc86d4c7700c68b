"""The encoder layer and the decoder layer, made of residual branches.

Every branch is ``x + dropout(Aff(f(Aff(x))))``; what differs is f: token mixing, cross-attention or a channel MLP
(Touvron et al. 2021, section 2 and "Sequence-to-sequence ResMLP"). Activations are T x B x C.

For inference a branch folds its two Aff into f (``fold_``): what they do to the channels moves into the weights beside
them, or, for token mixing, which commutes with a scaling of channels, into one scale and one offset after it.
"""

import torch
from fairseq import utils
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import MultiheadAttention
from fairseq.modules.fairseq_dropout import FairseqDropout
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn

from resmlp_mt.modules.affine import Aff
from resmlp_mt.modules.token_mixing import CausalTokenMixing, IncrementalState, TokenMixing


def absorb_input_affine_(linear: nn.Linear, affine: Aff) -> None:
    """Make ``linear(x)`` what ``linear(affine(x))`` was: ``W Aff(x) + b = (W diag(alpha)) x + (W beta + b)``."""
    with torch.no_grad():
        weight, alpha, beta = linear.weight.double(), affine.alpha.double(), affine.beta.double()
        linear.bias.copy_(linear.bias.double() + weight @ beta)
        linear.weight.copy_(weight * alpha)


def absorb_output_affine_(linear: nn.Linear, affine: Aff) -> None:
    """Make ``linear(x)`` what ``affine(linear(x))`` was."""
    with torch.no_grad():
        alpha, beta = affine.alpha.double(), affine.beta.double()
        linear.weight.copy_(linear.weight.double() * alpha[:, None])
        linear.bias.copy_(linear.bias.double() * alpha + beta)


class ResidualBranch(nn.Module):
    """The frame of a branch: an Aff before it, an Aff with LayerScale at its end, dropout.

    Args:
        dim: channels C
        layerscale_init: where the alpha of the last Aff starts
        dropout: probability, applied to the branch before it is added to x
        owner: class name of the layer, by which fairseq's ``--retain-dropout-modules`` finds the dropout
    """

    def __init__(self, dim: int, layerscale_init: float, dropout: float, owner: str):
        super().__init__()
        self.pre_affine: nn.Module = Aff(dim)
        self.post_affine: nn.Module = Aff(dim, layerscale_init)
        self.dropout = FairseqDropout(dropout, module_name=owner)

    def make_generation_fast_(self, **_: object) -> None:
        """fairseq's hook before inference: fold."""
        self.fold_()

    def fold_(self) -> None:
        """Fold both Aff, in place and only once; the branch then computes the same with fewer operations."""
        if isinstance(self.pre_affine, Aff) and isinstance(self.post_affine, Aff):
            self._absorb(self.pre_affine, self.post_affine)
            self.pre_affine, self.post_affine = nn.Identity(), nn.Identity()

    def _absorb(self, pre: Aff, post: Aff) -> None:
        raise NotImplementedError


class TokenMixingBranch(ResidualBranch):
    """``x + dropout(Aff(A Aff(x) + b))`` with A over the real positions of each sentence.

    Args:
        mixing: A and b, plain or causal
    """

    def __init__(self, mixing: TokenMixing, dim: int, layerscale_init: float, dropout: float, owner: str):
        super().__init__(dim, layerscale_init, dropout, owner)
        self.mixing = mixing

    def forward(self, x: Tensor, context: Tensor | IncrementalState | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; ``context`` is what the mixing wants to know: the padding, or the past."""
        return x + self.dropout(self.post_affine(self.mixing(self.pre_affine(x), context)))

    def _absorb(self, pre: Aff, post: Aff) -> None:
        self.mixing.fold_(pre, post)


class CrossAttentionBranch(ResidualBranch):
    """``x + dropout(Aff(MultiheadAttention(Aff(x), encoder)))`` with fairseq's own attention module."""

    def __init__(self, cfg: TransformerConfig, owner: str):
        super().__init__(cfg.decoder.embed_dim, cfg.layerscale_init, cfg.dropout, owner)
        self.attention = MultiheadAttention(
            cfg.decoder.embed_dim,
            cfg.decoder.attention_heads,
            kdim=cfg.encoder.embed_dim,
            vdim=cfg.encoder.embed_dim,
            dropout=cfg.attention_dropout,
            encoder_decoder_attention=True,
            q_noise=cfg.quant_noise.pq,
            qn_block_size=cfg.quant_noise.pq_block_size,
        )

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """``T x B x C, S x B x C' -> T x B x C`` and, if asked for, the attention of each head, H x B x T x S."""
        y, weights = self.attention(
            query=self.pre_affine(x),
            key=encoder_out,
            value=encoder_out,
            key_padding_mask=encoder_padding_mask,
            incremental_state=incremental_state,
            static_kv=True,
            need_weights=need_head_weights,
            need_head_weights=need_head_weights,
        )
        return x + self.dropout(self.post_affine(y)), weights

    def _absorb(self, pre: Aff, post: Aff) -> None:
        absorb_input_affine_(self.attention.q_proj, pre)
        absorb_output_affine_(self.attention.out_proj, post)


class ChannelMLPBranch(ResidualBranch):
    """``x + dropout(Aff(W2 GELU(W1 Aff(x) + b1) + b2))``, the same at every position.

    Args:
        cfg: the model's options
        dim: channels C
        hidden_dim: channels between W1 and W2, 4 C in the paper
    """

    def __init__(self, cfg: TransformerConfig, dim: int, hidden_dim: int, owner: str):
        super().__init__(dim, cfg.layerscale_init, cfg.dropout, owner)
        noise, block = cfg.quant_noise.pq, cfg.quant_noise.pq_block_size
        self.activation_fn = utils.get_activation_fn(activation=cfg.activation_fn)
        self.activation_dropout = FairseqDropout(cfg.activation_dropout, module_name=owner)
        self.fc1 = quant_noise(nn.Linear(dim, hidden_dim), noise, block)
        self.fc2 = quant_noise(nn.Linear(hidden_dim, dim), noise, block)

    def forward(self, x: Tensor) -> Tensor:
        """``T x B x C -> T x B x C``"""
        hidden = self.activation_dropout(self.activation_fn(self.fc1(self.pre_affine(x))))
        return x + self.dropout(self.post_affine(self.fc2(hidden)))

    def _absorb(self, pre: Aff, post: Aff) -> None:
        absorb_input_affine_(self.fc1, pre)
        absorb_output_affine_(self.fc2, post)


class ResMLPEncoderLayer(nn.Module):
    """Token mixing, then a channel MLP (Touvron et al. 2021, equations 2 and 3).

    Args:
        cfg: the model's options
    """

    load_to_BT = False  # fairseq 0.12.2 asks every encoder layer whether PyTorch's fused Transformer layer may run it

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        owner, dim = type(self).__name__, cfg.encoder.embed_dim
        mixing = TokenMixing(cfg.max_source_positions)
        self.mixing = TokenMixingBranch(mixing, dim, cfg.layerscale_init, cfg.dropout, owner)
        self.mlp = ChannelMLPBranch(cfg, dim, cfg.encoder.ffn_embed_dim, owner)

    def forward(self, x: Tensor, encoder_padding_mask: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; ``encoder_padding_mask`` (B x T), if any, is true at padded positions."""
        padding = None if encoder_padding_mask is None else encoder_padding_mask.t()
        return self.mlp(self.mixing(x.contiguous(), padding))


class ResMLPDecoderLayer(nn.Module):
    """Causal token mixing, cross-attention, channel MLP ("Sequence-to-sequence ResMLP").

    Args:
        cfg: the model's options
        no_encoder_attn: leave the cross-attention out
    """

    def __init__(self, cfg: TransformerConfig, no_encoder_attn: bool = False):
        super().__init__()
        owner, dim = type(self).__name__, cfg.decoder.embed_dim
        mixing = CausalTokenMixing(cfg.max_target_positions)
        self.mixing = TokenMixingBranch(mixing, dim, cfg.layerscale_init, cfg.dropout, owner)
        self.cross_attention = None if no_encoder_attn else CrossAttentionBranch(cfg, owner)
        self.mlp = ChannelMLPBranch(cfg, dim, cfg.decoder.ffn_embed_dim, owner)

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_head_weights: bool = False,
        **_: object,
    ) -> tuple[Tensor, Tensor | None, None]:
        """``T x B x C -> T x B x C``, with fairseq's decoder layer's other results.

        Args:
            x: T x B x C; T is 1 in a step of incremental decoding
            encoder_out: S x B x C'
            encoder_padding_mask: B x S, true at padded positions
            incremental_state: the caches of step-by-step decoding
            need_head_weights: also return the cross-attention of each head, H x B x T x S

        Returns:
            x, the attention or None, and None; further keyword arguments of fairseq's decoder (self-attention masks)
            have no meaning here: the mixing is causal by itself and padding follows the sentence
        """
        x = self.mixing(x.contiguous(), incremental_state)
        weights = None
        if self.cross_attention is not None and encoder_out is not None:
            x, weights = self.cross_attention(
                x, encoder_out, encoder_padding_mask, incremental_state, need_head_weights
            )
        return self.mlp(x), weights, None
