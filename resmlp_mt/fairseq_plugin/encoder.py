"""fairseq's face of the encoder, and what both sides take of fairseq: its wrappers of layers and its messages."""

from typing import Any

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.models import FairseqEncoder
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import LayerDropModuleList
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.nn import ModelConfig
from resmlp_mt.nn.encoder_decoder import Encoder
from resmlp_mt.nn.positions import restore_padding, roll_rows


def check_length(length: int, limit: int, side: str) -> None:
    """Refuse a sentence with more positions (``</s>`` included) than A has rows, with the option that raises that."""
    if length > limit:
        raise UserError(
            f"a {side} sentence has {length} positions (subwords and </s>) but the model has {limit}: "
            f"split or drop the sentence, or train with --max-{side}-positions {length} or more"
        )


def take_fairseq_s_(stack: Any, cfg: TransformerConfig, layer_drop: float) -> None:
    """Give one side fairseq's quantization noise, activation checkpointing, FSDP and layer drop, as the options say."""
    noise, block = cfg.quant_noise.pq, cfg.quant_noise.pq_block_size
    layers = []
    for layer in stack.layers:
        for module in layer.modules():
            if isinstance(module, nn.Linear):
                quant_noise(module, noise, block)
        if cfg.checkpoint_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        layers.append(fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap))
    stack.layers = LayerDropModuleList(layer_drop, layers) if layer_drop > 0 else nn.ModuleList(layers)
    dim = stack.embed_tokens.embedding_dim
    stack.quant_noise = quant_noise(nn.Linear(dim, dim, bias=False), noise, block) if noise > 0 else None
    stack.register_buffer("version", torch.Tensor([3]))  # fairseq's checkpoints have it


class ResMLPEncoder(FairseqEncoder, Encoder):
    """The encoder, with fairseq's arguments and results.

    Args:
        cfg: fairseq's options
        sizes: the same as the model has them
    """

    quant_noise: Any

    def __init__(self, cfg: TransformerConfig, sizes: ModelConfig, dictionary: Any, embed_tokens: nn.Embedding):
        Encoder.__init__(self, sizes, embed_tokens)
        self.dictionary = dictionary
        take_fairseq_s_(self, cfg, cfg.encoder.layerdrop)

    def check_positions(self, positions: int) -> None:
        check_length(positions, self.limit, "source")

    def forward(  # type: ignore[override]
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
            token_embeddings: B x T x C, instead of looking src_tokens up

        Returns:
            fairseq's encoder output: ``encoder_out`` [T x B x C], ``encoder_padding_mask`` [B x T],
            ``encoder_states`` [T x B x C each], positions where src_tokens has them
        """
        length = src_tokens.size(1)
        tokens, shift = self.shift_left(src_tokens)
        padding = tokens.eq(self.pad)
        if token_embeddings is not None and shift is not None:
            token_embeddings = roll_rows(token_embeddings, shift)[:, : tokens.size(1)]
        x = self.embed(tokens, embeddings=token_embeddings)
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        states = self.encode(x, padding if padding.any() else None)
        if shift is not None:
            states = states if return_all_hiddens else states[-1:]
            # contiguous: each layer's keys and values would else be made from a copy of its own
            moved = (restore_padding(state.transpose(0, 1), shift, length) for state in states)
            states = [state.transpose(0, 1).contiguous() for state in moved]
            padding = src_tokens.eq(self.pad)
        return {
            "encoder_out": states[-1:],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [],
            "encoder_states": states[:-1] if return_all_hiddens else [],
            "src_tokens": [],
            "src_lengths": [src_tokens.ne(self.pad).sum(1, dtype=torch.int32, keepdim=True)],
        }

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
            if name != "sentence":
                batch_dim = 1 if name in ("encoder_out", "encoder_states") else 0
                reordered[name] = [tensor.index_select(batch_dim, new_order) for tensor in tensors]
        return reordered

    def max_positions(self) -> int:
        """Source positions."""
        return self.limit
