"""Trace the graphs of an encoder-decoder, and compile them by PyTorch for ``compiled.py``."""

import copy
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._inductor import aoti_compile_and_package
from torch.export import Dim, ExportedProgram, export

from resmlp_mt.nn import EncoderDecoder
from resmlp_mt.nn.encoder_decoder import CandidateScorer, State
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate.checking import Sizes, random_sentences
from resmlp_mt.translate.compiled import NAMES, with_graphs
from resmlp_mt.translate.graphs import EncoderGraph, Graph, StackedSource
from resmlp_mt.translate.kernels import CompiledCrossAttention, CompiledMemory, declare, vectors
from resmlp_mt.translate.precision import compilable_, int8_settings, shape_of_packed
from resmlp_mt.translate.search import StepOptions, barred_places, continuations_of, ranked

SETTINGS: dict[str, object] = {
    "cpp.dynamic_threads": True,  # take as many threads as PyTorch has at run time
    "realize_opcount_threshold": 10,  # a value of so many operations is stored, not computed again at each use
    "scalar_asserts": False,  # they forbid a batch of one sentence, though it is computed like any other
}
TRACED = Sizes(6, 5, 5, 3), Sizes(8, 6, 7, 18)
"""Sizes of tensors that differ between these are dynamic; the second has more steps than memories hold at first."""


def compile_(model: EncoderDecoder, precision: str, shortlist: bool, place: Path) -> None:
    """Compile the graphs of ``NAMES`` and write them into the folder ``place``."""
    vectors()  # raises an error if code could only be compiled without them
    declare()
    original, model = model, copy.deepcopy(model)
    compilable_(model)
    for layer in model.decoder.layers:
        layer.cross_attention.attention = CompiledCrossAttention(layer.cross_attention.attention)
    parts = EncoderGraph(model), StepGraph(model, shortlist, first=True), StepGraph(model, shortlist, first=False)
    calls: dict[str, tuple[Tensor, ...]] = {}

    def noting(name: str, graph: nn.Module, tensors: list[Tensor]) -> list[Tensor]:
        calls[name] = tuple(tensors)
        return graph(*tensors)

    graphs: list[Graph] = [partial(noting, name, graph) for name, graph in zip(NAMES, parts, strict=True)]
    examples = []
    for sizes in TRACED:
        call_all(with_graphs(graphs, model.cfg, lambda: original, shortlist), sizes, shortlist)
        examples.append(dict(calls))
    with shape_of_packed():
        for name, graph in zip(NAMES, parts, strict=True):
            program = exported(graph, *(example[name] for example in examples))
            settings = SETTINGS | int8_settings(precision)
            aoti_compile_and_package(program, package_path=str(place / f"{name}.pt2"), inductor_configs=settings)


def exported(graph: nn.Module, one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> ExportedProgram:
    """Return a graph, traced with the tensors ``one``; sizes that differ in ``other`` are dynamic."""
    free = [
        {axis: Dim.DYNAMIC for axis in range(tensor.dim()) if tensor.size(axis) != like.size(axis)}
        for tensor, like in zip(one, other, strict=True)
    ]
    shapes = (free[0], tuple(free[1:])) if len(free) > 1 else (free[0],)
    return export(
        graph.eval(), one, dynamic_shapes=shapes, strict=False, prefer_deferred_runtime_asserts_over_guards=True
    )


def call_all(model: Any, sizes: Sizes, shortlist: bool) -> None:
    """Call the graphs as a search of these sizes does, with random sources; the last sentence ends after one step."""
    cfg, batch, beam = model.cfg, sizes.batch, sizes.beam
    source, candidates = random_sentences(cfg, sizes, shortlist)
    state = model.decoder.start(*model.encoder(source), candidates)
    tokens, scores, left = torch.full((batch, 1), END), torch.zeros(batch, 1), torch.arange(batch - 1)
    for step in range(min(sizes.steps, cfg.decoder.positions)):
        continuations_of(model.decoder)(tokens, state, scores, StepOptions(beam, cfg.pad))
        rows = left.repeat_interleave(beam) * (1 if step == 0 else beam)
        state.reorder(rows, left if step == 0 else None)
        tokens = torch.cat([tokens[rows], torch.full((len(rows), 1), END)], 1)
        scores = torch.zeros(len(left), beam)


class StepGraph(nn.Module):
    """A step of the decoder and the ranking of the continuations, as a function of tensors alone.

    With ``shortlist`` it scores only candidates; with ``first`` it has no past.
    """

    barred: Tensor

    def __init__(self, model: EncoderDecoder, shortlist: bool, first: bool):
        super().__init__()
        self.decoder, self.shortlist, self.first = model.decoder, shortlist, first
        self.wanted = StepOptions(0, model.cfg.pad)
        places = torch.arange(model.cfg.target_symbols)
        self.register_buffer("barred", barred_places(places, self.wanted, False, first))

    def forward(self, tokens: Tensor, *known: Tensor) -> list[Tensor]:
        """Return the ``Continuations`` of each beam's last token, BK x 1, then each layer's memory, two tensors.

        ``known``: the beams' scores, B x K; any K numbers, whose count is the next step's K; any T numbers, for the T
        positions so far; ``EncoderGraph``'s output; the ``CandidateScorer``, if any; the memories, if there is a past.
        """
        left = iter(known)
        scores, beam, length = next(left), next(left).size(0), next(left).size(0)
        sources = StackedSource(*islice(left, 3)).by_layer()
        scorer = CandidateScorer(*islice(left, 4)) if self.shortlist else None
        memories = [
            CompiledMemory() if self.first or layer.mixing is None else CompiledMemory(next(left), next(left))
            for layer in self.decoder.layers
        ]
        logits, _ = self.decoder.step(tokens, State(sources, memories, length, scorer))
        barred, numbers = self.barred, None
        if scorer is not None:
            numbers = scorer.numbers
            barred = barred_places(torch.arange(logits.size(2)), self.wanted, True, self.first)
        wanted = self.wanted._replace(beam=beam)
        best = ranked(logits[:, -1], scores, wanted, barred, numbers, torch.ops.resmlp_mt.best)
        return [*best, *(tensor for memory in memories for tensor in memory.tensors)]
