"""A model that PyTorch compiles once for this processor. The cache is the user's own, because its code is run."""

import hashlib
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

import resmlp_mt.nn
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_folder, lock, remove_unfinished, user_cache
from resmlp_mt.common.workers import cpuinfo
from resmlp_mt.nn import EncoderDecoder, ModelConfig
from resmlp_mt.nn.encoder_decoder import Side, State
from resmlp_mt.nn.memory import PagedMemory
from resmlp_mt.translate import kernels
from resmlp_mt.translate.checking import difference
from resmlp_mt.translate.graphs import Graph, GraphEncoder, StackedSource, check_graphs, reason
from resmlp_mt.translate.precision import int8_settings
from resmlp_mt.translate.search import Continuations, StepOptions, continuations

NAMES = "encoder", "first", "later"
ADVICE = "is there a C++ compiler (g++)? Without one take engine pytorch with precision int8"
TOLERANCE = {"fp32": 1e-3, "bf16": 0.1, "int8": 0.1}  # of a token's log-probability, on average: rounding may differ
LONGEST_WAIT = 3600.0  # seconds, for another process that compiles the same


def compiled_model(
    cfg: ModelConfig,
    digest: str,
    model: Callable[[], EncoderDecoder],
    precision: str,
    shortlist: bool,
    threads: int = 1,
) -> Any:
    """Return a compiled model for ``search`` on a CPU; with ``shortlist`` it scores only candidates.

    Args:
        digest: checksum of the model's weights
        model: returns the model, folded and in the precision; called to compile it and for steps that are not compiled
        threads: how many threads may search at the same time
    """
    known = cfg, digest, precision, shortlist, int8_settings(precision), torch.__version__, cpuinfo("flags", "Features")
    cache = own_cache()
    place = cache / name_of(*known)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            kernels.load(cache)
            if not place.is_dir():
                with open(place.with_suffix(".lock"), "a") as file:
                    lock(file, f"{place}: another process compiles the same for too long", LONGEST_WAIT)
                    remove_unfinished(place)
                    if not place.is_dir():  # else another process was quicker
                        _make(model(), precision, shortlist, place)
            return _loaded(cfg, model, shortlist, place, threads)
    except UserError:
        raise
    except Exception as error:  # PyTorch raises exceptions of many classes
        advice = f"remove {place}" if place.is_dir() else ADVICE
        raise UserError(f"engine compiled: PyTorch cannot compile or load it: {reason(error)}: {advice}") from error


def _make(model: EncoderDecoder, precision: str, shortlist: bool, place: Path) -> None:
    from resmlp_mt.translate.compiling import compile_  # takes as long to import as all else

    check_graphs(model)
    print("compiling the model for this processor: about two minutes, once", file=sys.stderr)
    with atomic_folder(place) as new:
        compile_(model, precision, shortlist, new)
        found = difference(_loaded(model.cfg, lambda: model, shortlist, new), model, shortlist)
        if not found <= TOLERANCE[precision]:  # true for nan, too
            raise UserError("engine compiled: the compiled model computes something else than the model")


def _loaded(
    cfg: ModelConfig, model: Callable[[], EncoderDecoder], shortlist: bool, place: Path, threads: int = 1
) -> Any:
    torch.cpu._init_amx()  # Linux ends processes that run AMX instructions and have not asked for them
    load = torch.classes.resmlp_mt.CompiledGraph
    graphs: list[Graph] = [load(str(place / f"{name}.pt2"), threads).run for name in NAMES]
    return with_graphs(graphs, cfg, model, shortlist)


def with_graphs(graphs: list[Graph], cfg: ModelConfig, model: Callable[[], EncoderDecoder], shortlist: bool) -> Any:
    """Return an encoder and a decoder for ``search`` that call the graphs of ``NAMES``, or else ``model``."""
    encoder, first, later = graphs
    decoder = CompiledDecoder(first, later, cfg, model, shortlist)
    side = Side(cfg.encoder.positions, cfg.pad)
    return SimpleNamespace(cfg=cfg, encoder=GraphEncoder(encoder, side), decoder=decoder)


def name_of(*known: object) -> str:
    """Return a digest of all that compiled code depends on: ``known``, and the code of ``nn`` and ``translate``."""
    digest = hashlib.sha256(" ".join(map(str, known)).encode())
    for room in Path(resmlp_mt.nn.__file__).parent, Path(__file__).parent:
        for path in sorted([*room.glob("*.py"), *room.glob("*.cpp")]):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def own_cache() -> Path:
    """Return the folder for compiled code. Only the user may write there, because the code is run."""
    cache = user_cache() / "resmlp_mt"
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = cache.stat()
    except OSError as error:
        raise UserError(f"{cache}: cannot be made: {error.strerror or error}: set XDG_CACHE_HOME") from error
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise UserError(f"{cache}: others can write there what would run: chmod 700 or set XDG_CACHE_HOME")
    return cache


class CompiledDecoder(Side):
    """A decoder of K beams of each of B sentences, by two compiled ``StepGraph``s: for the first step and later ones.

    The model's decoder computes what is not compiled.
    """

    def __init__(
        self, first: Graph, later: Graph, cfg: ModelConfig, model: Callable[[], EncoderDecoder], shortlist: bool
    ):
        Side.__init__(self, cfg.decoder.positions, cfg.pad)
        self.first, self.later, self.shortlist, self._model = first, later, shortlist, model
        self.symbols = cfg.target_symbols
        self.mixings = [cfg.decoder.of_layer(number).token_mixing != "none" for number in range(cfg.decoder_layers)]

    @cached_property
    def decoder(self) -> Any:
        return self._model().decoder

    def start(self, source: tuple[Tensor, ...], padding: Tensor, candidates: Tensor | None = None) -> State:
        """Return the state before the first step, from the output of ``GraphEncoder``; as ``Decoder.start``."""
        scorer = None if candidates is None else self.decoder.scorer(candidates)
        return State([StackedSource(*source)], [PagedMemory() for _ in self.mixings], 0, scorer)

    def continuations(
        self, tokens: Tensor, state: State, scores: Tensor, wanted: StepOptions
    ) -> tuple[Continuations, Tensor | None]:
        """Take a step and rank the continuations, as ``search.continuations`` does."""
        (source,) = state.sources
        width = self.symbols if state.candidates is None else state.candidates.numbers.size(1)
        few = width * scores.size(1) < 2 * wanted.beam  # continuations in all, and compiled code returns 2 x beam
        other = wanted.attention or wanted.constraints is not None
        if few or other or (state.candidates is not None) != self.shortlist:
            by_layer = replace(state, sources=source.by_layer())
            found = continuations(self.decoder, tokens, by_layer, scores, wanted)
            state.length = by_layer.length
            return found
        self.check_positions(state.length + 1)  # compiled code checks no positions and makes no room
        sizes = tokens.new_empty(wanted.beam), tokens.new_empty(state.length)
        known = [scores, *sizes, *source, *(state.candidates or ())]
        for memory in state.memories:
            memory.make_room(1)
            known += memory.tensors
        step = self.later if state.length else self.first
        # compiled code reads its inputs as they were laid out in the example that was traced
        made = iter(step([tensor.contiguous() for tensor in (tokens[:, -1:], *known)]))
        best = Continuations(*islice(made, len(Continuations._fields)))
        for has_mixing, memory in zip(self.mixings, state.memories, strict=True):
            if has_mixing:
                memory.tensors = next(made), next(made)
        state.length += 1
        return best, None
