"""The encoder and a step as functions of tensors alone: what is compiled, and what is written as ONNX graphs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.nn import EncoderDecoder
from resmlp_mt.nn.cross_attention import Source
from resmlp_mt.nn.encoder_decoder import CandidateScorer, State

Graph = Callable[[list[Tensor]], list[Tensor]]


def check_graphs(model: EncoderDecoder) -> None:
    """Refuse a model without the parts that the graphs are made of."""
    if any(layer.cross_attention is None for layer in model.decoder.layers):
        raise UserError("a decoder layer has no cross-attention: such a model is for the engine pytorch alone")


class EncoderGraph(nn.Module):
    """The encoder, and what the layers of the decoder read of it."""

    def __init__(self, model: EncoderDecoder):
        super().__init__()
        self.encoder, self.layers = model.encoder, model.decoder.layers

    def forward(self, tokens: Tensor) -> list[Tensor]:
        """``B x S``, padded at the end, to keys and values, L x B x H x S x D, and the mask, B x H x 1 x S."""
        padding = tokens.eq(self.encoder.pad)
        encoded = self.encoder.encode(self.encoder.embed(tokens), padding)[-1]
        made: list[Source] = [layer.source(encoded) for layer in self.layers]
        mask = self.layers[0].cross_attention.attention.mask(padding, made[0].keys)
        return [torch.stack([each.keys for each in made]), torch.stack([each.values for each in made]), mask]


class GraphEncoder:
    """Source tokens (B x S, padded on either side) to what the decoder's layers read, and where padding is, B x S'."""

    def __init__(self, graph: Graph, model: EncoderDecoder):
        self.graph, self.encoder = graph, model.encoder

    def __call__(self, source: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        tokens, _ = self.encoder.shift_left(source)
        return tuple(self.graph([tokens.contiguous()])), tokens.eq(self.encoder.pad)


@dataclass
class GraphState:
    """What is kept between two steps of a graph: as ``State``, but the source of all layers in the tensors of one."""

    source: tuple[Tensor, ...]
    memories: list[Any]  # of the layers, or one of all
    length: int = 0
    candidates: CandidateScorer | None = None

    def reorder(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Give each beam the state of the beam that it continues; as ``State.reorder``."""
        for memory in self.memories:
            memory.reorder(rows)
        if sentences is not None:
            keys, values, mask = self.source
            chosen = keys.index_select(1, sentences), values.index_select(1, sentences)
            self.source = *chosen, mask.index_select(0, sentences)
            self.candidates = None if self.candidates is None else self.candidates.reorder(sentences)

    def by_layer(self) -> State:
        """The same as the decoder has it."""
        keys, values, mask = self.source
        sources: list[Source | None] = [Source(*each, mask) for each in zip(keys, values, strict=True)]
        return State(sources, self.memories, self.length, self.candidates)
