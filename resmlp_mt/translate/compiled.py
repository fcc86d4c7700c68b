"""A compiled encoder and a compiled step in the place of PyTorch's modules: the same search with fewer calls.

A step of PyTorch's modules is some hundred small operators, of which each takes some microseconds before it computes
anything; in 8 bits most of them round numbers or scale them. Compiled, neighbours become one loop, and no Python runs
between them.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from resmlp_mt.nn.among import Among, among
from resmlp_mt.nn.cross_attention import Source
from resmlp_mt.nn.encoder_decoder import EncoderDecoder, State
from resmlp_mt.nn.past import with_room
from resmlp_mt.nn.token_mixing import TokenMixing
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate.ranking import Continuations, Wanted, barred_places, continuations, ranked

Graph = Callable[[list[Tensor]], list[Tensor]]
RANKED = len(Continuations._fields)


class CompiledEncoder:
    """Source tokens (B x S, padded on either side) to what the decoder's layers read, and where padding is, B x S'.

    Args:
        graph: an ``EncoderGraph``, compiled
    """

    def __init__(self, graph: Graph, model: EncoderDecoder):
        self.graph, self.encoder = graph, model.encoder

    def __call__(self, source: Tensor) -> tuple[list[Source], Tensor]:
        tokens, _ = self.encoder.packed(source)
        self.encoder.check_positions(tokens.size(1))  # what is compiled checks nothing
        made = [tensor.contiguous() for tensor in called(self.graph, tokens)]  # once, not at every step
        return sources_of(made), tokens.eq(self.encoder.pad)


class CompiledDecoder:
    """One step of K beams of each of B sentences, as ``encoder_decoder.Decoder`` has it.

    Args:
        first, later: of a ``StepGraph`` each, compiled: the first step, and one that has a past
        model: what has not been compiled is computed by its decoder
        shortlist: whether a ``StepGraph`` scores some target tokens, not all
    """

    def __init__(self, first: Graph, later: Graph, model: EncoderDecoder, shortlist: bool):
        self.first, self.later, self.decoder, self.shortlist = first, later, model.decoder, shortlist
        self.kept, self.symbols = kept_by(model), model.cfg.target_symbols

    @property
    def limit(self) -> int:
        """Target positions."""
        return self.decoder.limit

    def start(self, sources: list[Source], padding: Tensor, candidates: Tensor | None = None) -> State:
        """The state before the first step, of what ``CompiledEncoder`` gave; as that of ``Decoder``."""
        some = None
        if candidates is not None:
            some = among(candidates, self.decoder.output_projection.weight, self.decoder.pad, sources[0].keys.dtype)
        return State(list(sources), [[] for _ in self.kept], 0, some)

    def continuations(
        self, tokens: Tensor, state: State, scores: Tensor, wanted: Wanted
    ) -> tuple[Continuations, Tensor | None, State]:
        """Take a step and rank what may follow; as ``ranking.continuations``."""
        if wanted.attention or (state.among is not None) != self.shortlist or self._few(state, wanted.beam):
            return continuations(self.decoder, tokens, state, scores, wanted)
        self.decoder.check_positions(state.length + 1)
        sizes = tokens.new_empty(wanted.beam), tokens.new_empty(state.length)
        known = [scores, *sizes, *flat(state.sources), *(state.among or ())]
        if state.length == 0:
            found = called(self.first, tokens, *known)
        else:
            layers = zip(self.decoder.layers, state.pasts, strict=True)
            past = flat(past_with_room(layer, past) for layer, past in layers)
            found = called(self.later, tokens[:, -1:], *known, *past)
        best, pasts = Continuations(*found[:RANKED]), grouped(found[RANKED:], self.kept)
        return best, None, State(state.sources, pasts, state.length + 1, state.among)

    def _few(self, state: State, beam: int) -> bool:
        """Whether there is less to choose from than what is compiled takes for granted."""
        width = self.symbols if state.among is None else state.among.numbers.size(1)
        return width < (2 * beam if state.length == 0 else 2)

    def reorder(self, state: State, rows: Tensor, sentences: Tensor | None = None) -> State:
        """Give each beam the state of the beam that it continues; as that of ``Decoder``."""
        return self.decoder.reorder(state, rows, sentences)


class EncoderGraph(nn.Module):
    """The encoder, and what the layers of the decoder take of it, as a function of tensors alone."""

    def __init__(self, model: EncoderDecoder):
        super().__init__()
        self.encoder, self.layers = model.encoder, model.decoder.layers

    def forward(self, tokens: Tensor) -> list[Tensor]:
        """``B x S``, each sentence from the first position on, to keys, values and mask of each layer."""
        memory, padding = self.encoder.encode(tokens)
        return flat(layer.source(memory, padding) for layer in self.layers)


class StepGraph(nn.Module):
    """A step of the decoder, and the ranking of what may follow, as a function of tensors alone.

    Args:
        shortlist: it scores some target tokens, not all
        first: without a past
    """

    barred: Tensor

    def __init__(self, model: EncoderDecoder, shortlist: bool, first: bool):
        super().__init__()
        self.decoder, self.shortlist, self.first = model.decoder, shortlist, first
        self.kept = [] if first else kept_by(model)
        self.wanted = Wanted(0, model.cfg.pad, END)
        places = torch.arange(model.cfg.target_symbols)
        self.register_buffer("barred", barred_places(places, self.wanted, False, first))

    def forward(self, tokens: Tensor, *known: Tensor) -> list[Tensor]:
        """A position of each beam.

        Args:
            tokens: the last of each beam, BK x 1
            known: the scores of the beams, B x K, at first B x 1; any K numbers, for the K of the next step; any T, for
                the T positions so far; keys, values and mask of each layer; what ``Among`` has, if there is a
                shortlist; the past of each layer, if there is one

        Returns:
            what ``Continuations`` has, and the longer past of each layer
        """
        left = iter(known)
        scores, beam, length = next(left), next(left).size(0), next(left).size(0)
        layers = len(self.decoder.layers)
        sources = sources_of(list(islice(left, 3 * layers)))
        some = Among(*islice(left, 4)) if self.shortlist else None
        pasts = grouped(left, self.kept or [0] * layers)
        logits, _, state = self.decoder.step(tokens, State(list(sources), pasts, length, some))
        barred, numbers = self.barred, None
        if some is not None:
            numbers = some.numbers
            barred = barred_places(torch.arange(logits.size(2)), self.wanted, True, self.first)
        best = ranked(logits[:, -1], scores, self.wanted._replace(beam=beam), barred, numbers, self.first)
        return [*best, *flat(state.pasts)]


def called(graph: Graph, *tensors: Tensor) -> list[Tensor]:
    """Call a graph. Compiled code reads its inputs as they were laid out in the example that was traced."""
    return graph([tensor.contiguous() for tensor in tensors])


def kept_by(model: EncoderDecoder) -> list[int]:
    """How many tensors the past of each layer has."""
    end = torch.tensor([[END]])
    _, _, state = model.decoder.step(end, model.decoder.start(*model.encoder(end)))
    return [len(past) for past in state.pasts]


def past_with_room(layer: Any, past: list[Tensor]) -> list[Tensor]:
    """A layer's past with room for one position more, which a compiled step does not make."""
    mixing = None if layer.mixing is None else layer.mixing.mixing
    return with_room(past, 1, mixing.max_positions) if isinstance(mixing, TokenMixing) else past


def flat(groups: Iterable[Any]) -> list[Tensor]:
    """All tensors of all groups."""
    return [each for group in groups for each in group]


def grouped(tensors: Iterable[Tensor], sizes: Iterable[int]) -> list[list[Tensor]]:
    """Groups of so many tensors each."""
    left = iter(tensors)
    return [list(islice(left, size)) for size in sizes]


def sources_of(tensors: Sequence[Tensor]) -> list[Source]:
    """Keys, values and mask of each layer, one after another, as ``Source``."""
    return [Source(*tensors[start : start + 3]) for start in range(0, len(tensors), 3)]
