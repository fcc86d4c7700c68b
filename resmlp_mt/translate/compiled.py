"""A model compiled for this processor by PyTorch, once, and kept in the user's own cache: what is loaded runs."""

import contextlib
import hashlib
import os
import sys
import warnings
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import resmlp_mt.nn
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_folder, lock
from resmlp_mt.nn import EncoderDecoder
from resmlp_mt.nn.encoder_decoder import CandidateScorer
from resmlp_mt.nn.memory import PagedMemory
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate.checking import Sizes, difference, random_sentences
from resmlp_mt.translate.graphs import EncoderGraph, Graph, GraphEncoder, GraphState, check_graphs, reason
from resmlp_mt.translate.precision import compilable, products, shape_of_packed
from resmlp_mt.translate.search import Continuations, StepOptions, barred_places, continuations, following, ranked

RANKED = len(Continuations._fields)
NAMES = "encoder", "first", "later"
TOLERANCE = {"fp32": 1e-3, "bf16": 0.1, "int8": 0.1}  # of log-probabilities, on average: roundings may differ
LONGEST_WAIT = 3600.0  # seconds, for another process that compiles the same
SETTINGS: dict[str, object] = {
    "cpp.dynamic_threads": True,  # as many as PyTorch has when it runs
    "realize_opcount_threshold": 10,  # what takes so many operations is computed once, not wherever it is read
    "scalar_asserts": False,  # they forbid a batch of one sentence, though it is computed like any other
}
TRACED = Sizes(6, 5, 5, 3), Sizes(8, 6, 7, 18)
"""Sizes of tensors that differ between these are free; the second has more steps than there is room for at first."""


def with_graphs(graphs: list[Graph], model: EncoderDecoder, shortlist: bool) -> Any:
    """An encoder and a decoder for ``search`` that call graphs of ``NAMES``, with what else they need of a model."""
    encoder, first, later = graphs
    decoder = CompiledDecoder(first, later, model, shortlist)
    return SimpleNamespace(cfg=model.cfg, encoder=GraphEncoder(encoder, model), decoder=decoder)


def compiled_model(model: EncoderDecoder, precision: str, shortlist: bool) -> Any:
    """A compiled model for ``search``, among some target tokens if ``shortlist``; of one that is folded, on a CPU."""
    check_graphs(model)
    place = own_cache() / name_of(model, precision, shortlist)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            if not place.is_dir():
                with open(place.with_suffix(".lock"), "a") as file:
                    lock(file, f"{place}: another process compiles the same for too long", LONGEST_WAIT)
                    if not place.is_dir():  # or another process was quicker
                        _make(model, precision, shortlist, place)
            return _loaded(model, shortlist, place)
    except UserError:
        raise
    except Exception as error:  # PyTorch's are of many classes
        advice = f"remove {place}" if place.is_dir() else "is there a C++ compiler (g++)?"
        raise UserError(f"engine compiled: PyTorch cannot compile or load it: {reason(error)}: {advice}") from error


def _make(model: EncoderDecoder, precision: str, shortlist: bool, place: Path) -> None:
    print("compiling the model for this processor: about two minutes, once", file=sys.stderr)
    with atomic_folder(place) as new:
        compile_(model, precision, shortlist, new)
        found = difference(_loaded(model, shortlist, new), model, shortlist)
        if not found <= TOLERANCE[precision]:  # nor is nan
            raise UserError("engine compiled: the compiled model computes something else than the model")


def _loaded(model: EncoderDecoder, shortlist: bool, place: Path) -> Any:
    # their loaders, since a call of the whole parses at each time what the structure of its inputs is
    loaders = [torch._inductor.aoti_load_package(str(place / f"{name}.pt2")).loader for name in NAMES]
    return with_graphs([loader.run for loader in loaders], model, shortlist)


def compile_(model: EncoderDecoder, precision: str, shortlist: bool, place: Path) -> None:
    """Write what ``NAMES`` has, compiled, into a folder."""
    model = compilable(model)
    parts = EncoderGraph(model), StepGraph(model, shortlist, first=True), StepGraph(model, shortlist, first=False)
    calls: dict[str, tuple[Tensor, ...]] = {}

    def noting(name: str, graph: nn.Module, tensors: list[Tensor]) -> list[Tensor]:
        calls[name] = tuple(tensors)
        return graph(*tensors)

    graphs: list[Graph] = [partial(noting, name, graph) for name, graph in zip(NAMES, parts, strict=True)]
    examples = []
    for sizes in TRACED:
        call_all(with_graphs(graphs, model, shortlist), sizes, shortlist)
        examples.append(dict(calls))
    with shape_of_packed():
        for name, graph in zip(NAMES, parts, strict=True):
            program = exported(graph, *(example[name] for example in examples))
            torch._inductor.aoti_compile_and_package(
                program, package_path=str(place / f"{name}.pt2"), inductor_configs=SETTINGS | products(precision)
            )


def exported(graph: nn.Module, one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> ExportedProgram:
    """A graph traced with the first tensors; sizes that are others in the second are free."""
    free = [
        {axis: Dim.DYNAMIC for axis in range(tensor.dim()) if tensor.size(axis) != like.size(axis)}
        for tensor, like in zip(one, other, strict=True)
    ]
    shapes = (free[0], tuple(free[1:])) if len(free) > 1 else (free[0],)
    return export(
        graph.eval(), one, dynamic_shapes=shapes, strict=False, prefer_deferred_runtime_asserts_over_guards=True
    )


def call_all(model: Any, sizes: Sizes, shortlist: bool) -> None:
    """Call the graphs as a search of these sizes does, with random tokens; the last sentence ends after a step."""
    cfg, batch, beam = model.cfg, sizes.batch, sizes.beam
    source, candidates = random_sentences(cfg, sizes, shortlist)
    state = model.decoder.start(*model.encoder(source), candidates)
    tokens, scores, left = torch.full((batch, 1), END), torch.zeros(batch, 1), torch.arange(batch - 1)
    for step in range(min(sizes.steps, cfg.decoder.positions)):
        following(model.decoder)(tokens, state, scores, StepOptions(beam, cfg.pad, END))
        rows = left.repeat_interleave(beam) * (1 if step == 0 else beam)
        state.reorder(rows, left if step == 0 else None)
        tokens = torch.cat([tokens[rows], torch.full((len(rows), 1), END)], 1)
        scores = torch.zeros(len(left), beam)


def name_of(model: EncoderDecoder, precision: str, shortlist: bool) -> str:
    """Of all that compiled code depends on: weights, sizes, precision, this code, PyTorch and the processor."""
    known = model, model.cfg, shortlist, SETTINGS | products(precision), torch.__version__, processor()
    digest = hashlib.sha256(" ".join(map(str, known)).encode())
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):  # some are not in the state_dict
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().data)
    for room in Path(resmlp_mt.nn.__file__).parent, Path(__file__).parent:
        for path in sorted(room.glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def processor() -> str:
    """What tells the processor of this machine from another that understands other instructions."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        return next((line for line in lines if line.startswith("flags")), "")
    return ""


def own_cache() -> Path:
    """The folder for compiled code, the user's alone."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = Path(home) / "resmlp_mt"
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = cache.stat()
    except OSError as error:
        raise UserError(f"{cache}: cannot be made: {error.strerror or error}: set XDG_CACHE_HOME") from error
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise UserError(f"{cache}: others can write there what would run: chmod 700 or set XDG_CACHE_HOME")
    return cache


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
        self, tokens: Tensor, state: GraphState, scores: Tensor, wanted: StepOptions
    ) -> tuple[Continuations, Tensor | None]:
        """Take a step and rank what may follow; as ``ranking.continuations``."""
        other = wanted.attention or wanted.constraints is not None
        if other or (state.candidates is not None) != self.shortlist or self._few(state, wanted.beam):
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
        self.wanted = StepOptions(0, model.cfg.pad, END)
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
