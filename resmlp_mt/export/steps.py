"""The two halves of a search as functions without a state: what is exported.

What a module keeps between the steps of fairseq's search comes in as an argument here and goes out as a result.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resmlp_mt.errors import UserError
from resmlp_mt.models.beams import IncrementalState
from resmlp_mt.modules.cross_attention import Source
from resmlp_mt.modules.padding import roll_rows
from resmlp_mt.modules.token_mixing import Mixing, TokenMixing


def check_exportable(model: Any) -> None:
    """Refuse a model without the parts that the steps are made of.

    Raises:
        UserError: it has no cross-attention
    """
    for number, layer in enumerate(model.decoder.layers, start=1):
        if layer.cross_attention is None:
            raise UserError(f"decoder layer {number} has no cross-attention: such a decoder cannot be exported")


class Encoder(nn.Module):
    """Source sentences to all that the steps need of them: keys and values of every layer's attention, and padding.

    Args:
        model: a ResMLPTransformerModel, folded or not
    """

    def __init__(self, model: Any):
        super().__init__()
        self.encoder = model.encoder
        self.attentions = nn.ModuleList(layer.cross_attention.attention for layer in model.decoder.layers)

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Encode a batch, padded on either side; it may not be wider than the model's positions.

        Args:
            source: B x S

        Returns:
            keys and values, L x B x H x S x D, and what is added to attention's scores, B x S: 0, at padding -infinity
        """
        first = source.ne(self.encoder.padding_idx).int().argmax(1)
        out = self.encoder.forward_scriptable(roll_rows(source, first))
        keys, values = [], []
        for attention in self.attentions:
            made = attention.source(out["encoder_out"][0])  # type: ignore[operator]
            keys.append(made.keys.unflatten(0, (-1, attention.num_heads)))
            values.append(made.values.unflatten(0, (-1, attention.num_heads)))
        padding = out["encoder_padding_mask"][0]
        mask = torch.zeros_like(padding, dtype=keys[0].dtype).masked_fill(padding, float("-inf"))
        return torch.stack(keys), torch.stack(values), mask


class DecoderStep(nn.Module):
    """The scores of the next token, and the inputs of every mixing, one longer.

    Args:
        model: a ResMLPTransformerModel, folded or not; its decoder is changed and of no other use afterwards
    """

    def __init__(self, model: Any):
        super().__init__()
        self.decoder = model.decoder
        for layer in self.decoder.layers:
            if layer.mixing is not None:
                layer.mixing.mixing = MixingStep(layer.mixing.mixing)
        if self.decoder.embed_positions is not None:
            self.decoder.embed_positions = PositionsOfAll(self.decoder.embed_positions)

    def forward(
        self, previous: Tensor, past: Tensor, keys: Tensor, values: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One step of K beams of each of B sentences, whose rows follow one another: R is B K.

        Args:
            previous: R, the last token of each beam, ``</s>`` in the first step
            past: L x T x R x C, each beam's own; T is 0 in the first step
            keys, values, mask: what the encoder gave, one B for all beams of a sentence

        Returns:
            log-probabilities R x V, and the past of the next step, L x (T + 1) x R x C
        """
        state: IncrementalState = {}
        heads = self.decoder.layers[0].cross_attention.attention.num_heads
        by_head = mask[:, None].expand(-1, heads, -1).flatten(0, 1).unsqueeze(1)  # BH x 1 x S
        for number, layer in enumerate(self.decoder.layers):
            source = Source(
                keys[number].flatten(0, 1), values[number].flatten(0, 1), by_head.flatten(0, 1).unsqueeze(1)
            )
            layer.keep(state, source, [past[number]])
        # The tokens before the last count only as positions.
        tokens = F.pad(previous.unsqueeze(1), [past.size(1), 0], value=self.decoder.dictionary.eos())
        features, _ = self.decoder.extract_features_scriptable(
            tokens, {"encoder_out": [keys], "encoder_padding_mask": []}, state, alignment_layer=-1
        )
        scores = self.decoder.get_normalized_probs((self.decoder.output_layer(features), None), log_probs=True)
        longer = []
        for number, layer in enumerate(self.decoder.layers):
            if layer.mixing is None:
                longer.append(F.pad(past[number], [0, 0, 0, 0, 0, 1]))
            else:
                longer += layer.past_in(state)
        return scores[:, 0], torch.stack(longer)


class MixingStep(Mixing):
    """A causal mixing whose past is one tensor: its inputs so far, T x R x C.

    A mixing that is linear computes the new position alone. Any other is asked for all positions at once, of which the
    last is taken: as right, but slower the longer the sentence.

    Args:
        mixing: of a decoder layer
    """

    def __init__(self, mixing: Mixing):
        super().__init__()
        self.mixing = mixing

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x R x C -> T x R x C``"""
        return self.mixing(x)

    def step(self, x: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """``1 x R x C -> 1 x R x C``; the inputs grow by x."""
        if not isinstance(self.mixing, TokenMixing):
            return super().step(x, past)
        inputs = torch.cat([*past, x])
        return self.mixing.mix(inputs, inputs.size(0) - 1), [inputs]


class PositionsOfAll(nn.Module):
    """Positional embeddings of all tokens, of which the decoder takes the last.

    fairseq's own for a single step make a constant of the position when they are traced.

    Args:
        embedding: fairseq's, learned or sinusoidal
    """

    def __init__(self, embedding: nn.Module):
        super().__init__()
        self.embedding = embedding

    def forward(self, tokens: Tensor, incremental_state: IncrementalState | None = None) -> Tensor:
        """``B x T -> B x T x C``"""
        return self.embedding(tokens)
