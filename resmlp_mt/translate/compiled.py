"""A compiled step of search: neighbouring operators become one loop, and no Python runs between them."""

from itertools import islice

import torch
from torch import Tensor, nn

from resmlp_mt.nn.encoder_decoder import CandidateScorer, EncoderDecoder
from resmlp_mt.nn.memory import PagedMemory
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate.graphs import Graph, GraphState
from resmlp_mt.translate.ranking import Continuations, Wanted, barred_places, continuations, ranked

RANKED = len(Continuations._fields)


class CompiledDecoder:
    """One step of K beams of each of B sentences, by compiled ``StepGraph``s: the first step, and one that has a past.

    What has not been compiled is computed by the model's decoder.
    """

    def __init__(self, first: Graph, later: Graph, model: EncoderDecoder, shortlist: bool):
        self.first, self.later, self.decoder, self.shortlist = first, later, model.decoder, shortlist
        self.symbols, self.limit = model.cfg.target_symbols, model.decoder.limit

    def start(self, source: tuple[Tensor, ...], padding: Tensor, candidates: Tensor | None = None) -> GraphState:
        """The state before the first step, of what ``GraphEncoder`` gave; as that of ``Decoder``."""
        memories = [PagedMemory() for _ in self.decoder.layers]
        return GraphState(source, memories, 0, self.decoder.scorer(candidates))

    def continuations(
        self, tokens: Tensor, state: GraphState, scores: Tensor, wanted: Wanted
    ) -> tuple[Continuations, Tensor | None]:
        """Take a step and rank what may follow; as ``ranking.continuations``."""
        if wanted.attention or (state.candidates is not None) != self.shortlist or self._few(state, wanted.beam):
            by_layer = state.by_layer()
            found = continuations(self.decoder, tokens, by_layer, scores, wanted)
            state.length = by_layer.length
            return found
        self.decoder.check_positions(state.length + 1)  # what is compiled checks nothing, and makes no room
        sizes = tokens.new_empty(wanted.beam), tokens.new_empty(state.length)
        known = [scores, *sizes, *state.source, *(state.candidates or ())]
        for memory in state.memories:
            memory.make_room(1)
            known += memory.tensors
        step = self.later if state.length else self.first
        # compiled code reads its inputs as they were laid out in the example that was traced
        made = iter(step([tensor.contiguous() for tensor in (tokens[:, -1:], *known)]))
        best = Continuations(*islice(made, RANKED))
        for layer, memory in zip(self.decoder.layers, state.memories, strict=True):
            if layer.mixing is not None:
                memory.tensors = next(made), next(made)
        state.length += 1
        return best, None

    def _few(self, state: GraphState, beam: int) -> bool:
        """Whether there is less to choose from than what is compiled takes for granted."""
        width = self.symbols if state.candidates is None else state.candidates.numbers.size(1)
        return width < (2 * beam if state.length == 0 else 2)


class StepGraph(nn.Module):
    """A step of the decoder, and the ranking of what may follow, as a function of tensors alone.

    With ``shortlist`` it scores some target tokens, not all; as ``first`` it has no past.
    """

    barred: Tensor

    def __init__(self, model: EncoderDecoder, shortlist: bool, first: bool):
        super().__init__()
        self.decoder, self.shortlist, self.first = model.decoder, shortlist, first
        self.wanted = Wanted(0, model.cfg.pad, END)
        places = torch.arange(model.cfg.target_symbols)
        self.register_buffer("barred", barred_places(places, self.wanted, False, first))

    def forward(self, tokens: Tensor, *known: Tensor) -> list[Tensor]:
        """The last token of each beam (BK x 1) to what ``Continuations`` has and each layer's memory, two tensors.

        ``known`` is: the scores of the beams, B x K; any K numbers, for the K of the next step; any T, for the T
        positions so far; what ``EncoderGraph`` gave; the ``CandidateScorer``, if any; the memories, if there is a past.
        """
        left = iter(known)
        scores, beam, length = next(left), next(left).size(0), next(left).size(0)
        source = tuple(islice(left, 3))
        scorer = CandidateScorer(*islice(left, 4)) if self.shortlist else None
        memories = [
            PagedMemory() if self.first or layer.mixing is None else PagedMemory(next(left), next(left))
            for layer in self.decoder.layers
        ]
        logits, _ = self.decoder.step(tokens, GraphState(source, memories, length, scorer).by_layer())
        barred, numbers = self.barred, None
        if scorer is not None:
            numbers = scorer.numbers
            barred = barred_places(torch.arange(logits.size(2)), self.wanted, True, self.first)
        best = ranked(logits[:, -1], scores, self.wanted._replace(beam=beam), barred, numbers, self.first)
        return [*best, *(tensor for memory in memories for tensor in memory.tensors)]
