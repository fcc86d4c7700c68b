"""The two halves of a search as functions without a state: what is exported to ONNX.

What a search keeps between its steps comes in as an argument here and goes out as a result.
"""

import torch
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.nn import EncoderDecoder
from resmlp_mt.nn.memory import Memory
from resmlp_mt.nn.padding import roll_rows
from resmlp_mt.translate.graphs import EncoderGraph, GraphState


def check_exportable(model: nn.Module) -> None:
    """Refuse a model without the parts that the steps are made of.

    Raises:
        UserError: it has no cross-attention
    """
    for number, layer in enumerate(model.decoder.layers, start=1):  # type: ignore[union-attr, arg-type]
        if layer.cross_attention is None:
            raise UserError(f"decoder layer {number} has no cross-attention: such a decoder cannot be exported")


class Encoder(EncoderGraph):
    """Source sentences, padded on either side, to all that the steps need of them."""

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """Encode a batch; it may not be wider than the model's positions.

        Args:
            source: B x S

        Returns:
            keys and values, L x B x H x S x D, and what is added to attention's scores, B x S: 0, at padding -infinity
        """
        first = source.ne(self.encoder.pad).int().argmax(1)
        keys, values, mask = super().forward(roll_rows(source, first))
        return keys, values, mask[:, 0, 0]


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
        by_head = mask[:, None, None].repeat(1, keys.size(2), 1, 1)
        layers = len(self.decoder.layers)
        memories = [Memory(past[number]) for number in range(layers)]
        state = GraphState((keys, values, by_head), memories, past.size(1)).by_layer()
        scores, attentions = self.decoder.step(previous.unsqueeze(1), state, (layers - 1,))
        for layer, memory in zip(self.decoder.layers, memories, strict=True):
            if layer.mixing is None:
                memory.remember(past.new_zeros(1, past.size(2), past.size(3)))
        last = attentions[-1]
        assert last is not None  # check_exportable
        return scores[:, 0].log_softmax(-1), torch.stack([memory.all() for memory in memories]), last.mean(0)[:, 0]
