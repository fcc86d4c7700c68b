"""The encoder and a step as functions of tensors alone: what is compiled, and what is written as ONNX graphs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from resmlp_mt.nn import EncoderDecoder
from resmlp_mt.nn.candidates import CandidateScorer
from resmlp_mt.nn.cross_attention import Source
from resmlp_mt.nn.encoder_decoder import State
from resmlp_mt.nn.memory import Memory
from resmlp_mt.text.tokenizer import END


class EncoderGraph(nn.Module):
    """The encoder, and what the layers of the decoder read of it."""

    def __init__(self, model: EncoderDecoder):
        super().__init__()
        self.encoder, self.layers = model.encoder, model.decoder.layers

    def forward(self, tokens: Tensor) -> list[Tensor]:
        """``B x S``, each sentence from the first position on, to a ``Source`` of all layers.

        Returns:
            keys and values, L x B x H x S x D, and the mask, B x H x 1 x S
        """
        padding = tokens.eq(self.encoder.pad)
        encoded = self.encoder.encode(self.encoder.embed(tokens), padding)[-1]
        made: list[Source] = [layer.source(encoded) for layer in self.layers]
        mask = self.layers[0].cross_attention.attention.mask(padding, made[0].keys)
        return [torch.stack([each.keys for each in made]), torch.stack([each.values for each in made]), mask]


@dataclass
class GraphState:
    """What is kept between two steps of a graph: as ``State``, but the source of all layers as ``EncoderGraph`` has it.

    Attributes:
        memories: of the layers, or one of all
    """

    source: tuple[Tensor, ...]
    memories: list[Any]
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


def kept_channels(model: EncoderDecoder) -> int:
    """Channels that the mixing of a layer remembers of a position."""
    end = torch.tensor([[END]], device=next(model.parameters()).device)
    state = model.decoder.start(*model.encoder(end))
    state.memories = [Memory() for _ in state.memories]
    model.decoder.step(end, state)
    kept: Sequence[Memory] = [memory for memory in state.memories if memory.positions]
    return kept[0].all().size(2) if kept else model.cfg.decoder.dim
