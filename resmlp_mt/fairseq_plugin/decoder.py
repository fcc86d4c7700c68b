"""fairseq's face of the decoder. In its search the beams of a sentence share what is kept of their source.

fairseq would have it copied for each of them. The encoder's output remembers which sentence each of its rows is of; so
the decoder knows at its first step which rows are beams of one sentence, and nothing moves when beams change places. On
a GPU, where a look at the order would have to wait for it, every beam keeps its own.
"""

from typing import Any

import torch
from fairseq.models import FairseqIncrementalDecoder
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import AdaptiveSoftmax
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.encoder import check_length, take_fairseq_s_
from resmlp_mt.nn import ModelConfig
from resmlp_mt.nn.encoder_decoder import Decoder
from resmlp_mt.nn.positions import restore_padding

STATE, BEAMS = "state", "beams"
"""What fairseq's dictionary of a search holds of this decoder: its ``State``, and K, the rows of a sentence."""


class ResMLPDecoder(FairseqIncrementalDecoder, Decoder):
    """The decoder, with fairseq's arguments and results.

    Args:
        cfg: fairseq's options
        sizes: the same as the model has them
    """

    quant_noise: Any

    def __init__(self, cfg: TransformerConfig, sizes: ModelConfig, dictionary: Any, embed_tokens: nn.Embedding):
        Decoder.__init__(self, sizes, embed_tokens)
        self.dictionary, self.onnx_trace = dictionary, False
        if sizes.adaptive_cutoffs:  # fairseq's, which its criterion trains
            self.adaptive_softmax = AdaptiveSoftmax(
                len(dictionary),
                sizes.decoder_output_dim,
                list(sizes.adaptive_cutoffs),
                dropout=cfg.adaptive_softmax_dropout,
                factor=sizes.adaptive_factor,
            )
        take_fairseq_s_(self, cfg, cfg.decoder.layerdrop)

    def check_positions(self, positions: int) -> None:
        check_length(positions, self.limit, "target")

    def look_up(self, tokens: Tensor) -> Tensor:
        x = super().look_up(tokens)
        return x if self.quant_noise is None else self.quant_noise(x)

    def forward(  # type: ignore[override]
        self, prev_output_tokens: Tensor, encoder_out: Any = None, *, features_only: bool = False, **more: Any
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """``extract_features`` and, unless ``features_only``, the projection: B x T x V."""
        more = {name: more[name] for name in more if name not in ("src_lengths", "return_all_hiddens")}
        x, extra = self.extract_features(prev_output_tokens, encoder_out, **more)
        return (x if features_only else self.output_layer(x)), extra

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]] | None,
        incremental_state: dict[str, Any] | None = None,
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
        """
        if full_context_alignment:
            raise UserError("full-context alignment needs self-attention: a ResMLP decoder's mixing is always causal")
        length = prev_output_tokens.size(1)
        number = len(self.layers) - 1 if alignment_layer is None else alignment_layer
        inner: list[Tensor] = []
        if incremental_state is None:
            tokens, shift = self.shift_left(prev_output_tokens)
            encoded, padding = encoded_in(encoder_out)
            (*inner, x), attentions = self.decode(self.embed(tokens), encoded, padding, (number,))
            x = restore_padding(x, shift, length)
            if shift is not None:
                inner = [restore_padding(each.transpose(0, 1), shift, length).transpose(0, 1) for each in inner]
        else:  # never padded: fairseq's search starts every sentence in the first column
            self.check_positions(length)
            shift = None
            if STATE not in incremental_state:
                self.begin(incremental_state, encoder_out)
            x, attentions = self.decode_step(prev_output_tokens[:, -1:], incremental_state[STATE], (number,))
        attention = next((each for each in attentions if each is not None), None)
        if attention is not None:
            attention = restore_padding(attention[:alignment_heads].float().to(x).mean(0), shift, length)
        return x, {"attn": [attention], "inner_states": [*inner]}

    def output_layer(self, features: Tensor) -> Tensor:
        """``B x T x C -> B x T x V``; features as they are for an adaptive softmax."""
        return features if self.adaptive_softmax is not None else self.output_projection(features)

    def begin(self, incremental_state: dict[str, Any], encoder_out: dict[str, list[Tensor]] | None) -> None:
        """Leave the state before the first step in fairseq's dictionary."""
        encoded, padding = encoded_in(encoder_out)
        beams = 1
        if encoder_out is not None and "sentence" in encoder_out:
            (sentence,) = encoder_out["sentence"]
            count = int((sentence == sentence[0]).sum())
            beams = count if in_groups(sentence, count) else 1
        if encoded is not None and padding is not None:
            encoded, padding = encoded[:, ::beams], padding[::beams]
        incremental_state[STATE], incremental_state[BEAMS] = self.start(encoded, padding), beams

    def reorder_incremental_state_scripting(self, incremental_state: dict[str, Any], new_order: Tensor) -> None:
        """Give each beam the caches of the beam that it continues; ``new_order`` (B') indexes the batch.

        No search of fairseq's parts the beams of a sentence. Where another does, each has its own source from then on.
        """
        if STATE not in incremental_state:
            return
        beams = incremental_state[BEAMS]
        state, sentences = incremental_state[STATE], new_order // beams
        if beams > 1 and in_groups(sentences, beams):
            sentences = sentences[::beams]
        elif beams > 1:
            incremental_state[BEAMS] = 1
        count = next((source.keys.size(0) for source in state.sources if source is not None), 0)
        same = sentences.is_cpu and torch.equal(sentences, torch.arange(count))
        state.reorder(new_order, None if same else sentences)

    def max_positions(self) -> int:
        """Target positions."""
        return self.limit


def encoded_in(encoder_out: dict[str, list[Tensor]] | None) -> tuple[Tensor | None, Tensor | None]:
    """The encoding, S x B x C, and its padding, B x S."""
    if encoder_out is None:
        return None, None
    return encoder_out["encoder_out"][0], encoder_out["encoder_padding_mask"][0]


def in_groups(sentence: Tensor, beams: int) -> bool:
    """Whether each so many rows in a row are of one sentence; ``sentence`` (B) says which one each row is of."""
    if sentence.numel() % beams:
        return False
    groups = sentence.view(-1, beams)
    return bool((groups == groups[:, :1]).all())
