"""A ResMLP encoder-decoder for transformers: the layers used in training, with transformers' arguments and results."""

from typing import TYPE_CHECKING, Any  # noqa: F401 (the code added to the copy needs the first)

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from resmlp_mt.export.transformers_face.configuration_resmlp import ResMLPConfig
from resmlp_mt.nn.cross_attention import Source
from resmlp_mt.nn.encoder_decoder import Decoder, Encoder, State, share_
from resmlp_mt.nn.memory import Memory
from resmlp_mt.nn.positions import SinusoidalPositions, restore_padding

IGNORED = -100
"""The value of labels that the loss ignores."""


class ResMLPEncoder(Encoder):
    """The encoder, with transformers' arguments and result."""

    main_input_name = "input_ids"

    def forward(  # type: ignore[override]
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> BaseModelOutput:
        """``B x S -> B x S x C``, padded on either side. The mask is 0 at padding; None: found by the padding token."""
        if attention_mask is not None:
            input_ids = input_ids.masked_fill(attention_mask == 0, self.pad)
        _, shift = self.shift_left(input_ids)
        encoded, _ = super().forward(input_ids)
        return BaseModelOutput(last_hidden_state=restore_padding(encoded.transpose(0, 1), shift, input_ids.size(1)))


class CachedMemory(Memory):
    """What a mixing remembers, in transformers' cache: one half of the channels as keys, the other half as values.

    Each half is B x 1 x T x C/2, so that transformers can reorder the beams.
    """

    def __init__(self, cache: DynamicCache, layer: int):
        super().__init__()
        self.cache, self.layer = cache, layer
        if cache.get_seq_length(layer):
            kept = cache.layers[layer]
            self.kept = self.joined(kept.keys, kept.values)

    def remember(self, new: Tensor) -> None:
        halves = new.transpose(0, 1).unsqueeze(1).tensor_split(2, -1)
        self.kept = self.joined(*self.cache.update(*halves, self.layer))

    @staticmethod
    def joined(keys: Tensor, values: Tensor) -> Tensor:
        """Return what is remembered, T x B x C, from its two halves."""
        return torch.cat([keys, values], -1).squeeze(1).transpose(0, 1)


class ResMLPForConditionalGeneration(PreTrainedModel, GenerationMixin):
    """ResMLP: token mixing by one linear layer over positions where a Transformer has self-attention."""

    config_class = ResMLPConfig
    base_model_prefix = ""
    main_input_name = "input_ids"

    def __init__(self, config: ResMLPConfig):
        super().__init__(config)
        self.encoder, self.decoder = ResMLPEncoder(config.model), Decoder(config.model)
        self._tied_weights_keys = config.model.shared
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        # Parameters have their initial values already. A table that is computed and not stored is lost when a model
        # is built without memory, as in from_pretrained.
        if isinstance(module, SinusoidalPositions):
            with torch.no_grad(), torch.device(module.table.device):
                module.table.copy_(module.made())

    def tie_weights(self, *args: Any, **kwargs: Any) -> None:
        """Make the parameters that are shared one parameter."""
        super().tie_weights(*args, **kwargs)
        share_(self, self.config.model)

    def get_encoder(self, *args: Any, **kwargs: Any) -> nn.Module:
        """Return the encoder, which ``generate`` calls once for all steps."""
        return self.encoder

    def get_input_embeddings(self) -> nn.Module:
        """Return the embeddings of the source."""
        return self.encoder.embed_tokens

    def get_output_embeddings(self) -> None:
        """Return None: ``_tied_weights_keys`` says what is shared."""

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Return ``</s>`` and all labels but the last, B x T."""
        if ((labels[:, 0] == IGNORED) | (labels[:, 0] == self.config.pad_token_id)).any():
            raise ValueError("labels begin with padding: pad them on the right (tokenizer.padding_side)")
        start = labels.new_full((len(labels), 1), self.config.decoder_start_token_id)
        shifted = torch.cat([start, labels[:, :-1]], 1)
        return shifted.masked_fill(shifted == IGNORED, self.config.pad_token_id)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: EncoderDecoderCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput | tuple[Any, ...]:
        """Compute the scores of the token after each decoder input.

        Args:
            input_ids: B x S, each sentence with ``</s>`` at its end, padded on either side
            attention_mask: as for the encoder, B x S, 0 at padding
            decoder_input_ids: B x T, ``</s>`` first; with a cache, the new ones alone. None: made from the labels
            encoder_outputs, past_key_values: results of the encoder and of the call before
            labels: B x T, with ``</s>`` at their end; -100 and padding are ignored
            use_cache: return ``past_key_values``; None: as configured, but not if there are labels
            output_attentions: return the cross-attentions, B x H x T x S for each layer
            num_items_in_batch: divisor of the summed losses; None: the number of labels not ignored

        Returns:
            logits B x T x V, the loss if there are labels, cache, attentions, encoder's result
        """
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask)
        if attention_mask is None and input_ids is not None:
            attention_mask = input_ids.ne(self.config.pad_token_id)
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("give decoder_input_ids or labels")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if use_cache is None:
            use_cache = self.config.use_cache and labels is None
        if past_key_values is None and (use_cache or output_attentions):
            past_key_values = EncoderDecoderCache(DynamicCache(), DynamicCache())
        padding = None if attention_mask is None else attention_mask == 0
        weights: Any = None
        if past_key_values is None:
            logits = self.decoder(decoder_input_ids, encoder_outputs[0].transpose(0, 1), padding)
        else:
            sources = self._sources(encoder_outputs[0], padding, past_key_values)
            logits, weights = self._step(decoder_input_ids, sources, past_key_values, bool(output_attentions))
        loss = None
        if labels is not None:
            labels = labels.masked_fill(labels == self.config.pad_token_id, IGNORED)
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum") / (
                labels.ne(IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
            )
        result = Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=past_key_values if use_cache else None,
            cross_attentions=weights,
            encoder_last_hidden_state=encoder_outputs[0],
        )
        return result if return_dict is not False else result.to_tuple()

    def _sources(self, encoded: Tensor, padding: Tensor | None, cache: EncoderDecoderCache) -> list[Source | None]:
        """Return what each layer's cross-attention reads of the encoding (B x S x C), from the cache if it has it."""
        sources: list[Source | None] = []
        for number, layer in enumerate(self.decoder.layers):
            if layer.cross_attention is None:
                sources.append(None)
                continue
            attention = layer.cross_attention.attention
            if not cache.is_updated.get(number):
                made = attention.source(encoded.transpose(0, 1))
                cache.cross_attention_cache.update(made.keys, made.values, number)
                cache.is_updated[number] = True
            kept = cache.cross_attention_cache.layers[number]
            mask = None if padding is None else attention.mask(padding, kept.keys)
            sources.append(Source(kept.keys, kept.values, mask))
        return sources

    def _step(
        self, tokens: Tensor, sources: list[Source | None], cache: EncoderDecoderCache, need_weights: bool
    ) -> tuple[Tensor, tuple[Tensor | None, ...] | None]:
        """Decode the positions after those in the cache, which holds what each mixing remembers of them."""
        start, layers = cache.get_seq_length(), range(len(self.decoder.layers))
        if start == 0 and bool((tokens[:, 0] == self.config.pad_token_id).any()):
            raise ValueError("decoder_input_ids begin with padding: pad them on the right, or give use_cache=False")
        memories = [CachedMemory(cache.self_attention_cache, number) for number in layers]
        state = State(sources, memories, start)
        logits, weights = self.decoder.step(tokens, state, layers if need_weights else ())
        for layer, memory in zip(self.decoder.layers, memories, strict=True):
            if layer.mixing is None:  # transformers counts positions by the cache
                memory.remember(logits.new_zeros(tokens.size(1), len(tokens), 2))
        if not need_weights:
            return logits, None
        return logits, tuple(None if each is None else each.transpose(0, 1) for each in weights)


ResMLPForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
