"""Adapters of the encoder and the decoder to fairseq: its arguments and results, its layer wrappers, its search.

In fairseq's search, the beams of a sentence share the keys and values of its source, which fairseq would copy for each
beam. The encoder's output says which sentence each row is of, so no data move when beams change places. On a GPU,
checking the order would mean waiting for the GPU: there, every beam keeps its own copy.
"""

from typing import Any

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.models import FairseqEncoder, FairseqIncrementalDecoder
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import AdaptiveSoftmax, LayerDropModuleList
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.nn import ModelConfig
from resmlp_mt.nn.encoder_decoder import Decoder, Encoder
from resmlp_mt.nn.positions import restore_padding

STATE, BEAMS = "state", "beams"
"""The decoder's keys in fairseq's incremental state: for its ``State``, and for how many rows share a source."""


def check_length(length: int, limit: int, side: str) -> None:
    """Check that a sentence has at most as many positions (with ``</s>``) as A; the error names the option to raise."""
    if length > limit:
        raise UserError(
            f"a {side} sentence has {length} positions (subwords and </s>) but the model has {limit}: "
            f"split or drop the sentence, or train with --max-{side}-positions {length} or more"
        )


def add_fairseq_wrappers_(stack: Any, cfg: TransformerConfig, layer_drop: float) -> None:
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
    """The encoder; ``sizes`` are the sizes and kinds of the model that fairseq's options ``cfg`` describe."""

    quant_noise: Any

    def __init__(self, cfg: TransformerConfig, sizes: ModelConfig, dictionary: Any, embed_tokens: nn.Embedding):
        Encoder.__init__(self, sizes, embed_tokens)
        self.dictionary = dictionary
        add_fairseq_wrappers_(self, cfg, cfg.encoder.layerdrop)

    def check_positions(self, positions: int) -> None:
        check_length(positions, self.limit, "source")

    def forward(  # type: ignore[override]
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, return_all_hiddens: bool = False
    ) -> dict[str, list[Tensor]]:
        """Encode a batch, B x T, padded on either side."""
        length = src_tokens.size(1)
        tokens, shift = self.shift_left(src_tokens)
        padding = tokens.eq(self.pad)
        x = self.embed(tokens)
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        x = self.encode(x, padding if padding.any() else None)
        if shift is not None:
            # contiguous: else each decoder layer would make a copy for its keys and values
            x = restore_padding(x.transpose(0, 1), shift, length).transpose(0, 1).contiguous()
            padding = src_tokens.eq(self.pad)
        return {
            "encoder_out": [x],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [],
            "encoder_states": [],  # with or without return_all_hiddens: nothing of fairseq's translation reads them
            "src_tokens": [],
            "src_lengths": [src_tokens.ne(self.pad).sum(1, dtype=torch.int32, keepdim=True)],
        }

    def reorder_encoder_out(self, encoder_out: dict[str, list[Tensor]], new_order: Tensor) -> dict[str, list[Tensor]]:
        """Give each beam the sentence of the beam that it continues; ``new_order`` (B') indexes the batch.

        If all rows keep their sentences, a CPU copies nothing. ``"sentence"`` [B] is the sentence of each row.
        """
        reordered: dict[str, list[Tensor]] = {}
        if new_order.is_cpu:
            batch = encoder_out["encoder_out"][0].size(1)
            sentence = encoder_out["sentence"][0] if "sentence" in encoder_out else torch.arange(batch)
            new_sentence = sentence.index_select(0, new_order)
            if torch.equal(new_sentence, sentence):
                return encoder_out
            reordered["sentence"] = [new_sentence]
        for name, tensors in encoder_out.items():
            if name != "sentence":
                batch_dim = 1 if name == "encoder_out" else 0
                reordered[name] = [tensor.index_select(batch_dim, new_order) for tensor in tensors]
        return reordered

    def max_positions(self) -> int:
        return self.limit


class ResMLPDecoder(FairseqIncrementalDecoder, Decoder):
    """The decoder; ``sizes`` are the sizes and kinds of the model that fairseq's options ``cfg`` describe."""

    quant_noise: Any

    def __init__(self, cfg: TransformerConfig, sizes: ModelConfig, dictionary: Any, embed_tokens: nn.Embedding):
        Decoder.__init__(self, sizes, embed_tokens)
        self.dictionary, self.onnx_trace = dictionary, False
        if sizes.adaptive_cutoffs:  # fairseq's class, which its criterion needs
            self.adaptive_softmax = AdaptiveSoftmax(
                len(dictionary),
                sizes.decoder_output_dim,
                list(sizes.adaptive_cutoffs),
                dropout=cfg.adaptive_softmax_dropout,
                factor=sizes.adaptive_factor,
            )
        add_fairseq_wrappers_(self, cfg, cfg.decoder.layerdrop)

    def check_positions(self, positions: int) -> None:
        check_length(positions, self.limit, "target")

    def look_up(self, tokens: Tensor) -> Tensor:
        x = super().look_up(tokens)
        return x if self.quant_noise is None else self.quant_noise(x)

    def forward(  # type: ignore[override]
        self, prev_output_tokens: Tensor, encoder_out: Any = None, *, features_only: bool = False, **more: Any
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Call ``extract_features`` and, unless ``features_only``, ``output_layer``: B x T x V."""
        more = {name: more[name] for name in more if name not in ("src_lengths", "return_all_hiddens")}
        x, extra = self.extract_features(prev_output_tokens, encoder_out, **more)
        return (x if features_only else self.output_layer(x)), extra

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Any,
        incremental_state: dict[str, Any] | None = None,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Decode B x T tokens, padded on either side, to features B x T x C; with a state, only the last position.

        ``attn`` (B x T x S) is one layer's attention (default: the last), the mean of the first heads (default: all).
        """
        length = prev_output_tokens.size(1)
        number = len(self.layers) - 1 if alignment_layer is None else alignment_layer
        if incremental_state is None:
            tokens, shift = self.shift_left(prev_output_tokens)
            (encoded,), (padding,) = encoder_out["encoder_out"], encoder_out["encoder_padding_mask"]
            x, attentions = self.decode(tokens, encoded, padding, (number,))
            x = restore_padding(x, shift, length)
        else:  # never padded: fairseq's search starts every sentence in the first column
            self.check_positions(length)
            shift = None
            if STATE not in incremental_state:
                self.begin(incremental_state, encoder_out)
            x, attentions = self.decode_step(prev_output_tokens[:, -1:], incremental_state[STATE], (number,))
        attention = next((each for each in attentions if each is not None), None)
        if attention is not None:
            attention = restore_padding(attention[:alignment_heads].to(x).mean(0), shift, length)
        return x, {"attn": [attention], "inner_states": []}

    def output_layer(self, features: Tensor) -> Tensor:
        """Project features to scores, ``B x T x C -> B x T x V``; with an adaptive softmax, return them unchanged."""
        return features if self.adaptive_softmax is not None else self.output_projection(features)

    def begin(self, incremental_state: dict[str, Any], encoder_out: dict[str, list[Tensor]]) -> None:
        """Put the state before the first step into fairseq's dictionary."""
        (encoded,), (padding,), beams = encoder_out["encoder_out"], encoder_out["encoder_padding_mask"], 1
        if "sentence" in encoder_out:
            (sentence,) = encoder_out["sentence"]
            count = int((sentence == sentence[0]).sum())
            beams = count if groups_share_sentence(sentence, count) else 1
        incremental_state[STATE] = self.start(encoded[:, ::beams], padding[::beams])
        incremental_state[BEAMS] = beams

    def reorder_incremental_state_scripting(self, incremental_state: dict[str, Any], new_order: Tensor) -> None:
        """Give each beam the caches of the beam that it continues; ``new_order`` (B') indexes the batch."""
        if STATE not in incremental_state:
            return
        beams = incremental_state[BEAMS]
        state, sentences = incremental_state[STATE], new_order // beams
        if beams > 1 and groups_share_sentence(sentences, beams):
            sentences = sentences[::beams]
        elif beams > 1:
            incremental_state[BEAMS] = 1  # fairseq's own searches do not separate beams; now each has its own source
        count = next((source.keys.size(0) for source in state.sources if source is not None), 0)
        same = sentences.is_cpu and torch.equal(sentences, torch.arange(count))
        state.reorder(new_order, None if same else sentences)

    def max_positions(self) -> int:
        return self.limit


def groups_share_sentence(sentence: Tensor, beams: int) -> bool:
    """Return whether every group of ``beams`` rows is of one sentence; ``sentence`` (B) is the sentence of each row."""
    if sentence.numel() % beams:
        return False
    groups = sentence.view(-1, beams)
    return bool((groups == groups[:, :1]).all())
