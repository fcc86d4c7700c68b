"""fairseq's Transformer encoder with ResMLP layers."""

from typing import Any

import torch
from fairseq.models.transformer import TransformerConfig, TransformerEncoderBase
from torch import Tensor, nn

from resmlp_mt.fairseq_plugin.layers import ResMLPEncoderLayer, wrap_layer
from resmlp_mt.fairseq_plugin.length import leading_padding, nothing_to_move
from resmlp_mt.nn.dropout import Dropout
from resmlp_mt.nn.norm import NORMS
from resmlp_mt.nn.padding import back, states_back, to_left


class ResMLPEncoder(TransformerEncoderBase):
    """Embeddings, ResMLP layers, one last norm (Touvron et al. 2021, "Sequence-to-sequence ResMLP").

    The base class embeds, zeroes padding, runs the layers and ends with ``layer_norm``, which is what ``--norm`` says.
    """

    def __init__(self, cfg: TransformerConfig, dictionary: Any, embed_tokens: nn.Embedding, return_fc: bool = False):
        super().__init__(cfg, dictionary, embed_tokens, return_fc)
        self.layer_norm = NORMS[cfg.norm](embed_tokens.embedding_dim)
        self.dropout_module = Dropout(cfg.dropout)

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        return wrap_layer(ResMLPEncoderLayer(cfg), cfg)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> dict[str, list[Tensor]]:
        """Encode a batch, padded on either side.

        Args:
            src_tokens: B x T
            src_lengths: B, not needed
            return_all_hiddens: also return what each layer gave
            token_embeddings: B x T x C, in the place of looking src_tokens up

        Returns:
            fairseq's encoder output: ``encoder_out`` [T x B x C], ``encoder_padding_mask`` [B x T],
            ``encoder_embedding`` [B x T x C], ``encoder_states`` [T x B x C each], positions where src_tokens has them

        Raises:
            UserError: a sentence has more positions than ``--max-source-positions``
        """
        length, limit = src_tokens.size(1), self.max_source_positions
        shift = leading_padding(src_tokens, self.padding_idx, limit, "source")
        if nothing_to_move(shift, length, limit):
            return self.forward_scriptable(src_tokens, src_lengths, return_all_hiddens, token_embeddings)
        if token_embeddings is not None:
            token_embeddings = to_left(token_embeddings, shift, limit)
        tokens = to_left(src_tokens, shift, limit)
        out: dict[str, list[Tensor]] = self.forward_scriptable(
            tokens, src_lengths, return_all_hiddens, token_embeddings
        )
        # contiguous: each layer's keys and values would else be made from a copy of its own
        out["encoder_out"] = [state.contiguous() for state in states_back(out["encoder_out"], shift, length)]
        out["encoder_padding_mask"] = [src_tokens.eq(self.padding_idx)]
        out["encoder_embedding"] = [back(out["encoder_embedding"][0], shift, length)]
        out["encoder_states"] = states_back(out["encoder_states"], shift, length)
        return out

    @torch.jit.export
    def reorder_encoder_out(self, encoder_out: dict[str, list[Tensor]], new_order: Tensor) -> dict[str, list[Tensor]]:
        """Give each beam the sentence of the beam that it continues; ``new_order`` (B') indexes the batch.

        The search asks for it at every step, mostly to exchange beams of one sentence, whose rows are the same. So the
        output remembers, as ``"sentence"`` [B], which sentence each row began as. (Not on a GPU, where a look at the
        order would have to wait for it.)
        """
        reordered: dict[str, list[Tensor]] = {}
        if new_order.is_cpu:
            if "sentence" in encoder_out:
                sentence = encoder_out["sentence"][0]
            else:
                sentence = torch.arange(encoder_out["encoder_out"][0].size(1))
            new_sentence = sentence.index_select(0, new_order)
            if torch.equal(new_sentence, sentence):
                return encoder_out
            reordered["sentence"] = [new_sentence]
        for name, tensors in encoder_out.items():
            if name not in ("sentence", "fc_results"):  # fairseq's own drops the second, which is for training
                batch_dim = 1 if name in ("encoder_out", "encoder_states") else 0
                reordered[name] = [tensor.index_select(batch_dim, new_order) for tensor in tensors]
        return reordered
