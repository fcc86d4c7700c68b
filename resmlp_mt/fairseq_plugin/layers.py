"""fairseq's face of the layers: its options, its states of step-by-step decoding, its wrappers."""

from typing import Final

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn

from resmlp_mt.fairseq_plugin.beams import IncrementalState, keeps_order, remembered_beams
from resmlp_mt.nn.cross_attention import Source
from resmlp_mt.nn.layers import DecoderLayer, EncoderLayer, LayerConfig


def layer_config(cfg: TransformerConfig, causal: bool, attention: bool = False) -> LayerConfig:
    """The options of one side's layers: the decoder's, which are causal, or the encoder's."""
    side = cfg.decoder if causal else cfg.encoder
    return LayerConfig(
        dim=side.embed_dim,
        hidden_dim=side.ffn_embed_dim,
        positions=cfg.max_target_positions if causal else cfg.max_source_positions,
        causal=causal,
        source_dim=cfg.encoder.embed_dim if attention else 0,
        attention_heads=cfg.decoder.attention_heads,
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        activation_dropout=cfg.activation_dropout,
        layerscale_init=cfg.layerscale_init,
        norm=str(cfg.norm),
        activation=str(cfg.activation_fn),
        token_mixing=str(cfg.token_mixing),
        mixing_heads=cfg.mixing_heads,
        mixing_relative=cfg.mixing_relative,
        mixing_dropout=cfg.mixing_dropout,
        mixing_band=cfg.mixing_band,
        mixing_expansion=cfg.mixing_expansion,
        mixing_kernel=cfg.mixing_kernel,
    )


def wrap_layer(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Apply fairseq's quantization noise, activation checkpointing and FSDP as the options say."""
    for module in layer.modules():
        if isinstance(module, nn.Linear):
            quant_noise(module, cfg.quant_noise.pq, cfg.quant_noise.pq_block_size)
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)


class ResMLPEncoderLayer(EncoderLayer):
    """The encoder layer as fairseq's encoder calls it."""

    # fairseq 0.12.2 asks every encoder layer whether PyTorch's fused Transformer layer may run in its place
    load_to_BT: Final[bool] = False
    return_fc: Final[bool] = False
    can_use_fastpath: Final[bool] = False
    ever_training: Final[bool] = True
    cfg_checkpoint_activations: Final[bool] = False

    def __init__(self, cfg: TransformerConfig):
        super().__init__(layer_config(cfg, causal=False))

    def forward(self, x: Tensor, encoder_padding_mask: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``; ``encoder_padding_mask`` (B x T), if any, is true at padded positions."""
        return self.encode(x.contiguous(), None if encoder_padding_mask is None else encoder_padding_mask.t())


class ResMLPDecoderLayer(DecoderLayer):
    """The decoder layer as fairseq's decoder calls it, with its state in fairseq's dictionary.

    The beams of a sentence share what the attention reads of their source (``resmlp_mt.fairseq_plugin.beams``).

    Args:
        cfg: the model's options
        no_encoder_attn: leave the cross-attention out
        number: of the layer, unique within the decoder
    """

    def __init__(self, cfg: TransformerConfig, no_encoder_attn: bool = False, number: int = 0):
        super().__init__(layer_config(cfg, causal=True, attention=not no_encoder_attn))
        self.name = f"resmlp_layer_{number}"

    def forward(  # type: ignore[override]
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
        x, need_weights = x.contiguous(), need_attn or need_head_weights
        if incremental_state is None:
            source = None if encoder_out is None else self.source(encoder_out, encoder_padding_mask)
            x, weights, _ = self.decode(x, source, None, need_weights)
            return x, weights, None
        if self.name in incremental_state:
            source, past = self.source_in(incremental_state), self.past_in(incremental_state)
        else:
            beams = remembered_beams(incremental_state)
            if encoder_out is not None:
                encoder_out = encoder_out[:, ::beams]
            if encoder_padding_mask is not None:
                encoder_padding_mask = encoder_padding_mask[::beams]
            source = None if encoder_out is None else self.source(encoder_out, encoder_padding_mask)
            past = torch.jit.annotate(list[Tensor], [])
        x, weights, past = self.decode(x, source, past, need_weights)
        self.keep(incremental_state, source, past)
        return x, weights, None

    @torch.jit.export
    def reorder(self, incremental_state: IncrementalState, new_order: Tensor, sentences: Tensor) -> None:
        """Give each beam the caches of the beam that it continues.

        Args:
            new_order: B', indexes the batch
            sentences: which sentences these are the beams of, by ``order_of_sentences``
        """
        if self.name not in incremental_state:
            return
        source, past = self.source_in(incremental_state), self.past_in(incremental_state)
        if self.mixing is not None:
            past = self.mixing.mixing.reorder(past, new_order)
        if self.cross_attention is not None and source is not None:
            attention = self.cross_attention.attention
            if not keeps_order(sentences, source.keys.size(0) // attention.num_heads):
                source = attention.reorder(source, sentences)
        self.keep(incremental_state, source, past)

    def keep(self, incremental_state: IncrementalState, source: Source | None, past: list[Tensor]) -> None:
        """Put this layer's state into fairseq's dictionary."""
        kept: dict[str, Tensor | None] = {}
        if source is not None:
            kept["keys"], kept["values"], kept["mask"] = source.keys, source.values, source.mask
        for number, tensor in enumerate(past):
            kept[f"past{number}"] = tensor
        incremental_state[self.name] = kept

    def source_in(self, incremental_state: IncrementalState) -> Source | None:
        """What ``keep`` put there."""
        kept = incremental_state[self.name]
        if "keys" not in kept:
            return None
        keys, values = kept["keys"], kept["values"]
        assert keys is not None and values is not None
        return Source(keys, values, kept["mask"])

    def past_in(self, incremental_state: IncrementalState) -> list[Tensor]:
        """What ``keep`` put there."""
        kept, past = incremental_state[self.name], torch.jit.annotate(list[Tensor], [])
        while f"past{len(past)}" in kept:
            tensor = kept[f"past{len(past)}"]
            assert tensor is not None
            past.append(tensor)
        return past
