"""fairseq's Transformer decoder with ResMLP layers."""

from typing import Any

import torch
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.beams import IncrementalState, order_of_sentences, remember_beams
from resmlp_mt.fairseq_plugin.layers import ResMLPDecoderLayer, wrap_layer
from resmlp_mt.fairseq_plugin.length import check_length, leading_padding, nothing_to_move
from resmlp_mt.nn.dropout import Dropout
from resmlp_mt.nn.norm import NORMS
from resmlp_mt.nn.padding import back, states_back, to_left


class ResMLPDecoder(TransformerDecoderBase):
    """Embeddings, ResMLP layers with cross-attention, one last norm, output projection.

    The base class embeds, runs the layers, ends with ``layer_norm``, which is what ``--norm`` says, and projects to the
    vocabulary.
    """

    def __init__(
        self,
        cfg: TransformerConfig,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        no_encoder_attn: bool = False,
        output_projection: nn.Module | None = None,
    ):
        self.built = 0  # layers so far
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn, output_projection)
        self.layer_norm = NORMS[cfg.norm](cfg.decoder.embed_dim)
        self.dropout_module = Dropout(cfg.dropout)

    def build_decoder_layer(self, cfg: TransformerConfig, no_encoder_attn: bool = False) -> nn.Module:
        self.built += 1
        return wrap_layer(ResMLPDecoderLayer(cfg, no_encoder_attn, self.built), cfg)

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]] | None,
        incremental_state: IncrementalState | None = None,
        full_context_alignment: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Decode up to the vocabulary projection.

        Args:
            prev_output_tokens: B x T, padded on either side; with a state, only the last position is new
            encoder_out: what the encoder gave
            incremental_state: the caches of step-by-step decoding
            alignment_layer: whose cross-attention is returned (default: the last layer's)
            alignment_heads: average over this many heads (default: all)

        Returns:
            features B x T x C; ``{"attn": [B x T x S], "inner_states": [T x B x C each]}``

        Raises:
            UserError: a sentence has more positions than ``--max-target-positions``, or a full-context alignment is
                asked of a mixing that is causal
        """
        if full_context_alignment:
            raise UserError("full-context alignment needs self-attention: a ResMLP decoder's mixing is always causal")
        length, limit = prev_output_tokens.size(1), self.max_target_positions
        if incremental_state is not None:  # never padded: fairseq's search starts every sentence in the first column
            check_length(length, limit, "target")
            if encoder_out is not None and "sentence" in encoder_out:
                remember_beams(incremental_state, encoder_out["sentence"][0])
            return self.extract_features_scriptable(
                prev_output_tokens, encoder_out, incremental_state, False, alignment_layer, alignment_heads
            )
        shift = leading_padding(prev_output_tokens, self.padding_idx, limit, "target")
        if nothing_to_move(shift, length, limit):
            return self.extract_features_scriptable(
                prev_output_tokens, encoder_out, None, False, alignment_layer, alignment_heads
            )
        tokens = to_left(prev_output_tokens, shift, limit)
        x, extra = self.extract_features_scriptable(tokens, encoder_out, None, False, alignment_layer, alignment_heads)
        attention: list[Tensor | None] = []
        for weights in extra["attn"]:
            attention.append(weights if weights is None else back(weights, shift, length))
        states: list[Tensor | None] = []
        for state in extra["inner_states"]:
            states.append(state if state is None else states_back([state], shift, length)[0])
        return back(x, shift, length), {"attn": attention, "inner_states": states}

    @torch.jit.export
    def reorder_incremental_state_scripting(self, incremental_state: IncrementalState, new_order: Tensor) -> None:
        """Give each beam the caches of the beam that it continues; ``new_order`` (B') indexes the batch."""
        sentences = order_of_sentences(incremental_state, new_order)
        for layer in self.layers:
            layer.reorder(incremental_state, new_order, sentences)

    def buffered_future_mask(self, tensor: Tensor) -> None:
        """No mask: the mixing is causal by itself."""
        return None
