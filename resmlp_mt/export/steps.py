"""The two halves of a search as functions without a state: what is exported to ONNX.

What a search keeps between its steps comes in as an argument here and goes out as a result.
"""

import torch
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.nn.cross_attention import Source
from resmlp_mt.nn.encoder_decoder import EncoderDecoder
from resmlp_mt.nn.padding import roll_rows


def check_exportable(model: nn.Module) -> None:
    """Refuse a model without the parts that the steps are made of.

    Raises:
        UserError: it has no cross-attention
    """
    for number, layer in enumerate(model.decoder.layers, start=1):  # type: ignore[union-attr, arg-type]
        if layer.cross_attention is None:
            raise UserError(f"decoder layer {number} has no cross-attention: such a decoder cannot be exported")


class Encoder(nn.Module):
    """Source sentences to all that the steps need of them: keys and values of every layer's attention, and padding."""

    def __init__(self, model: EncoderDecoder):
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
        first = source.ne(self.encoder.pad).int().argmax(1)
        memory, padding = self.encoder.encode(roll_rows(source, first))
        keys, values = [], []
        for attention in self.attentions:
            made = attention.source(memory)  # type: ignore[operator]
            keys.append(made.keys.unflatten(0, (-1, attention.num_heads)))
            values.append(made.values.unflatten(0, (-1, attention.num_heads)))
        mask = torch.zeros_like(padding, dtype=memory.dtype).masked_fill(padding, float("-inf"))
        return torch.stack(keys), torch.stack(values), mask


class DecoderStep(nn.Module):
    """The scores of the next token, and what every mixing keeps of the past, one longer."""

    def __init__(self, model: EncoderDecoder):
        super().__init__()
        self.decoder = model.decoder

    def forward(
        self, previous: Tensor, past: Tensor, keys: Tensor, values: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step of K beams of each of B sentences, whose rows follow one another: R is B K.

        Args:
            previous: R, the last token of each beam, ``</s>`` in the first step
            past: L x T x R x C, each beam's own; T is 0 in the first step
            keys, values, mask: what the encoder gave, one B for all beams of a sentence

        Returns:
            log-probabilities R x V; the past of the next step, L x (T + 1) x R x C; the last layer's cross-attention,
            the mean of its heads, R x S
        """
        heads = self.decoder.layers[0].cross_attention.attention.num_heads
        by_head = mask[:, None].expand(-1, heads, -1).flatten(0, 1).unsqueeze(1)  # BH x 1 x S
        layers = range(len(self.decoder.layers))
        sources: list[Source | None] = [
            Source(keys[number].flatten(0, 1), values[number].flatten(0, 1), by_head) for number in layers
        ]
        longer = []

        def keep(number: int, new: Tensor) -> Tensor:
            longer.append(torch.cat([past[number], new]))
            return longer[number]

        scores, weights = self.decoder.step_over(previous.unsqueeze(1), past.size(1), sources, keep, need_weights=True)
        last = weights[-1]
        assert last is not None  # check_exportable
        return scores[:, 0].log_softmax(-1), torch.stack(longer), last.mean(0)[:, 0]
