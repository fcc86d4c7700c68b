"""The encoder layer and the decoder layer, made of residual branches.

Every branch is ``x + dropout(Aff(f(Aff(x))))``; what differs is f: token mixing, cross-attention or a channel MLP
(Touvron et al. 2021, section 2 and "Sequence-to-sequence ResMLP"). ``--norm layernorm`` has a LayerNorm in the place of
the first Aff; the second, which is the LayerScale, stays. Activations are T x B x C.

In training a branch keeps little of that for the backward pass (``forward_lean``); the plain form, which reads like the
equation, is what inference and TorchScript run. For inference a branch folds its two Aff into f (``fold_``): what they
do to the channels moves into the weights beside them, or, for linear token mixing, which commutes with a scaling of
channels, into one scale and one offset after it. What f cannot take in stays.
"""

import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn

from resmlp_mt.modules.activation import activation
from resmlp_mt.modules.affine import Aff
from resmlp_mt.modules.cross_attention import CrossAttention
from resmlp_mt.modules.dropout import Dropout
from resmlp_mt.modules.mixing_kinds import token_mixing
from resmlp_mt.modules.norm import NORMS, absorb_input_affine_, absorb_output_affine_, split
from resmlp_mt.modules.past import IncrementalState
from resmlp_mt.modules.residual import add_branch, recomputed
from resmlp_mt.modules.token_mixing import Mixing


class ResidualBranch(nn.Module):
    """The frame of a branch: an Aff or another norm before it, an Aff with LayerScale at its end, dropout.

    Args:
        cfg: the model's options
        dim: channels C
        owner: class name of the layer, by which fairseq's ``--retain-dropout-modules`` finds the dropout
    """

    def __init__(self, cfg: TransformerConfig, dim: int, owner: str):
        super().__init__()
        self.pre_affine = NORMS[cfg.norm](dim)
        self.post_affine: nn.Module = Aff(dim, cfg.layerscale_init)
        self.dropout = Dropout(cfg.dropout, module_name=owner)

    def end(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + dropout(Aff(y))``, T x B x C all"""
        return x + self.dropout(self.post_affine(y))

    @torch.jit.unused
    def end_lean(self, x: Tensor, y: Tensor) -> Tensor:
        """The same"""
        assert isinstance(self.post_affine, Aff)
        return add_branch(x, y, self.post_affine, self.dropout)

    def is_lean(self) -> bool:
        """Whether a backward pass may follow, for which little shall be kept; a folded branch has none of its own."""
        return torch.is_grad_enabled() and isinstance(self.post_affine, Aff)

    def make_generation_fast_(self, **_: object) -> None:
        """fairseq's hook before inference: fold."""
        self.fold_()

    def fold_(self) -> None:
        """Fold both Aff, in place and only once; the branch then computes the same with fewer operations."""
        if isinstance(self.post_affine, Aff):
            self.pre_affine, self.post_affine = self._absorb(self.pre_affine, self.post_affine)

    def _absorb(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        """Fold the norm before and the Aff behind as far as that changes nothing; returns what is left of them."""
        raise NotImplementedError


class TokenMixingBranch(ResidualBranch):
    """``x + dropout(Aff(A Aff(x) + b))`` with A over the real positions of each sentence, or what stands for A.

    Args:
        mixing: A and b or another mixing, plain or causal
    """

    def __init__(self, mixing: Mixing, cfg: TransformerConfig, dim: int, owner: str):
        super().__init__(cfg, dim, owner)
        self.mixing = mixing

    def forward(
        self, x: Tensor, padding: Tensor | None = None, incremental_state: IncrementalState | None = None
    ) -> Tensor:
        """``T x B x C -> T x B x C``; ``padding`` (T x B) is true at padded positions."""
        if not torch.jit.is_scripting() and self.is_lean():  # type: ignore[attr-defined]
            return self.forward_lean(x, padding, incremental_state)
        z = self.mixing.readable(self.pre_affine(x), padding)
        return self.end(x, self.mixing(z, padding, incremental_state))

    @torch.jit.unused
    def forward_lean(self, x: Tensor, padding: Tensor | None, incremental_state: IncrementalState | None) -> Tensor:
        """The same; Aff's output is computed again in the backward pass."""

        def read() -> Tensor:
            return self.mixing.readable(self.pre_affine(x), padding)

        z = read()
        with recomputed(z, read):
            y = self.mixing(z, padding, incremental_state)
        return self.end_lean(x, y)

    def _absorb(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        return self.mixing.fold_(pre, post)


class CrossAttentionBranch(ResidualBranch):
    """``x + dropout(Aff(MultiheadAttention(Aff(x), encoder)))`` with fairseq's own attention module."""

    def __init__(self, cfg: TransformerConfig, owner: str):
        super().__init__(cfg, cfg.decoder.embed_dim, owner)
        self.attention = CrossAttention(
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
        padding: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """``T x B x C, S x B x C' -> T x B x C`` and, if needed, the attention of each head, H x B x T x S.

        ``padding`` (B x S) is true at padded positions of the source.
        """
        if not torch.jit.is_scripting() and self.is_lean():  # type: ignore[attr-defined]
            return self.forward_lean(x, encoder_out, padding, incremental_state, need_weights)
        y, weights = self.attention(self.pre_affine(x), encoder_out, padding, incremental_state, need_weights)
        return self.end(x, y), weights

    @torch.jit.unused
    def forward_lean(
        self,
        x: Tensor,
        encoder_out: Tensor,
        padding: Tensor | None,
        incremental_state: IncrementalState | None,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """The same; Aff's output is computed again in the backward pass."""
        z = self.pre_affine(x)
        with recomputed(z, lambda: self.pre_affine(x)):
            y, weights = self.attention(z, encoder_out, padding, incremental_state, need_weights)
        return self.end_lean(x, y), weights

    def _absorb(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        left, affine = split(pre)
        absorb_input_affine_(self.attention.q_proj, affine)
        absorb_output_affine_(self.attention.out_proj, post)
        return left, nn.Identity()


class ChannelMLPBranch(ResidualBranch):
    """``x + dropout(Aff(W2 GELU(W1 Aff(x) + b1) + b2))``, the same at every position.

    Args:
        cfg: the model's options
        dim: channels C
        hidden_dim: channels between W1 and W2, 4 C in the paper
    """

    def __init__(self, cfg: TransformerConfig, dim: int, hidden_dim: int, owner: str):
        super().__init__(cfg, dim, owner)
        noise, block = cfg.quant_noise.pq, cfg.quant_noise.pq_block_size
        self.activation_fn = activation(cfg.activation_fn)
        self.activation_dropout = Dropout(cfg.activation_dropout, module_name=owner)
        self.fc1 = quant_noise(nn.Linear(dim, hidden_dim), noise, block)
        self.fc2 = quant_noise(nn.Linear(hidden_dim, dim), noise, block)

    def forward(self, x: Tensor) -> Tensor:
        """``T x B x C -> T x B x C``"""
        if not torch.jit.is_scripting() and self.is_lean():  # type: ignore[attr-defined]
            return self.forward_lean(x)
        hidden = self.activation_dropout(self.activation_fn(self.fc1(self.pre_affine(x))))
        return self.end(x, self.fc2(hidden))

    @torch.jit.unused
    def forward_lean(self, x: Tensor) -> Tensor:
        """The same; Aff's output and the activation are computed again in the backward pass."""
        z = self.pre_affine(x)
        with recomputed(z, lambda: self.pre_affine(x)):
            hidden = self.fc1(z)
        activation = self.activation_fn(hidden)
        if self.activation_dropout.is_active():
            y = self.fc2(self.activation_dropout(activation))
        else:
            with recomputed(activation, lambda: self.activation_fn(hidden)):
                y = self.fc2(activation)
        return self.end_lean(x, y)

    def _absorb(self, pre: nn.Module, post: Aff) -> tuple[nn.Module, nn.Module]:
        left, affine = split(pre)
        absorb_input_affine_(self.fc1, affine)
        absorb_output_affine_(self.fc2, post)
        return left, nn.Identity()


class ResMLPEncoderLayer(nn.Module):
    """Token mixing, then a channel MLP (Touvron et al. 2021, equations 2 and 3).

    Args:
        cfg: the model's options
    """

    load_to_BT = False  # fairseq 0.12.2 asks every encoder layer whether PyTorch's fused Transformer layer may run it

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        owner, dim = type(self).__name__, cfg.encoder.embed_dim
        mixing = token_mixing(cfg, dim, cfg.max_source_positions, causal=False)
        self.mixing = None if mixing is None else TokenMixingBranch(mixing, cfg, dim, owner)
        self.mlp = ChannelMLPBranch(cfg, dim, cfg.encoder.ffn_embed_dim, owner)

    def forward(self, x: Tensor, encoder_padding_mask: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; ``encoder_padding_mask`` (B x T), if any, is true at padded positions."""
        padding = None if encoder_padding_mask is None else encoder_padding_mask.t()
        x = x.contiguous()
        if self.mixing is not None:
            x = self.mixing(x, padding)
        return self.mlp(x)


class ResMLPDecoderLayer(nn.Module):
    """Causal token mixing, cross-attention, channel MLP ("Sequence-to-sequence ResMLP").

    Args:
        cfg: the model's options
        no_encoder_attn: leave the cross-attention out
    """

    def __init__(self, cfg: TransformerConfig, no_encoder_attn: bool = False):
        super().__init__()
        owner, dim = type(self).__name__, cfg.decoder.embed_dim
        mixing = token_mixing(cfg, dim, cfg.max_target_positions, causal=True)
        self.mixing = None if mixing is None else TokenMixingBranch(mixing, cfg, dim, owner)
        self.cross_attention = None if no_encoder_attn else CrossAttentionBranch(cfg, owner)
        self.mlp = ChannelMLPBranch(cfg, dim, cfg.decoder.ffn_embed_dim, owner)

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        self_attn_mask: Tensor | None = None,
        self_attn_padding_mask: Tensor | None = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, None]:
        """``T x B x C -> T x B x C``, with fairseq's decoder layer's other results.

        Args:
            x: T x B x C; T is 1 in a step of incremental decoding
            encoder_out: S x B x C'
            encoder_padding_mask: B x S, true at padded positions
            incremental_state: the caches of step-by-step decoding
            self_attn_mask, self_attn_padding_mask: fairseq's; without meaning here, where the mixing is causal by
                itself and padding follows the sentence
            need_attn, need_head_weights: also return the cross-attention of each head, H x B x T x S

        Returns:
            x, the attention or None, and None
        """
        x = x.contiguous()
        if self.mixing is not None:
            x = self.mixing(x, None, incremental_state)
        weights: Tensor | None = None
        if self.cross_attention is not None and encoder_out is not None:
            x, weights = self.cross_attention(
                x, encoder_out, encoder_padding_mask, incremental_state, need_attn or need_head_weights
            )
        return self.mlp(x), weights, None

    @torch.jit.export
    def reorder(self, incremental_state: IncrementalState, new_order: Tensor) -> None:
        """Give each beam the caches of the beam that it continues; ``new_order`` (B') indexes the batch."""
        if self.mixing is not None:
            self.mixing.mixing.reorder_incremental_state(incremental_state, new_order)  # type: ignore[operator]
        if self.cross_attention is not None:
            self.cross_attention.attention.reorder_incremental_state(incremental_state, new_order)
