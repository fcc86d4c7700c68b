"""A model compiled for this processor by PyTorch (``torch.export`` and AOTInductor), once, and kept.

Compiled code is kept in the user's own cache, never in a model's folder: it runs as soon as it is loaded.
"""

import contextlib
import copy
import fcntl
import hashlib
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import resmlp_mt.nn
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_folder
from resmlp_mt.nn import EncoderDecoder, ModelConfig
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate import compiled, compiled_int8, graphs, ranking, topk
from resmlp_mt.translate import precision as precisions
from resmlp_mt.translate.compiled import CompiledDecoder, CompiledEncoder, StepGraph
from resmlp_mt.translate.compiled_int8 import can_compile_products, products, shape_of_packed, with_compiled_products_
from resmlp_mt.translate.graphs import EncoderGraph
from resmlp_mt.translate.ranking import Continuations, Wanted, following

NAMES = "encoder", "first", "later"
TOLERANCE = {"fp32": 1e-3, "bf16": 0.1, "int8": 0.1}
"""Of log-probabilities, on average: a number near the middle between two may be rounded to the other one."""
LEAST = 8
"""Positions: a smaller model has no room for the examples that show which sizes are free."""
SETTINGS: dict[str, object] = {
    "cpp.dynamic_threads": True,  # as many as PyTorch has when it runs
    "realize_opcount_threshold": 10,  # what takes so many operations is computed once, not wherever it is read
    "scalar_asserts": False,  # they forbid a batch of one sentence, though it is computed like any other
}


class Sizes(NamedTuple):
    """Of a search that is traced, or by which the compiled model is compared with the model."""

    batch: int
    beam: int
    length: int
    steps: int


TRACED = Sizes(6, 5, 5, 3), Sizes(8, 6, 7, 18)
"""Sizes of tensors that differ between these are free; the second has more steps than there is room for at first."""
COMPARED = Sizes(1, 1, 1, 7), Sizes(1, 4, 7, 3), Sizes(2, 1, 6, 3), Sizes(6, 3, 3, 18)


class CompiledModel:
    """A compiled model with the face of an ``EncoderDecoder``, as far as ``search`` looks at it.

    Args:
        model: on a CPU, folded, in its precision
        precision: that
        shortlist: the search is among some target tokens, not all

    Raises:
        UserError: it cannot be compiled, or the cache cannot be used
    """

    encoder: CompiledEncoder
    decoder: CompiledDecoder

    @torch.no_grad()
    def __init__(self, model: EncoderDecoder, precision: str, shortlist: bool):
        self.cfg = model.cfg
        if any(layer.cross_attention is None for layer in model.decoder.layers):
            raise UserError("engine compiled: a decoder layer has no cross-attention: choose the engine pytorch")
        if min(model.encoder.limit, model.decoder.limit) < LEAST:
            raise UserError(f"engine compiled: is for models of {LEAST} positions or more: choose the engine pytorch")
        if self.cfg.target_symbols < 2 * TRACED[1].beam:
            raise UserError("engine compiled: is for models of 12 target symbols or more: choose the engine pytorch")
        place = own_cache() / name_of(model, precision, shortlist)
        with _readable_errors(place):
            if not place.is_dir():
                self._make(model, precision, shortlist, place)
            self._load(model, shortlist, place)

    def _make(self, model: EncoderDecoder, precision: str, shortlist: bool, place: Path) -> None:
        with _locked(place):
            if place.is_dir():  # another process was quicker
                return
            print("compiling the model for this processor: about two minutes, once", file=sys.stderr)
            with atomic_folder(place) as new:
                compile_(model, precision, shortlist, new)
                self._load(model, shortlist, new)
                self._compare(model, shortlist, TOLERANCE[precision])

    def _load(self, model: EncoderDecoder, shortlist: bool, place: Path) -> None:
        # their loaders, since a call of the whole parses at each time what the structure of its inputs is
        loaded = [torch._inductor.aoti_load_package(str(place / f"{name}.pt2")).loader for name in NAMES]
        encoder, first, later = (each.run for each in loaded)
        self.encoder = CompiledEncoder(encoder, model)
        self.decoder = CompiledDecoder(first, later, model, shortlist)

    def _compare(self, model: EncoderDecoder, shortlist: bool, tolerance: float) -> None:
        for sizes in COMPARED:
            for found, known in compared(self, model, sizes, shortlist):
                difference = (found - known)[known.isfinite()].abs().mean()
                if not difference <= tolerance:  # nor is nan
                    raise UserError("engine compiled: the compiled model computes something else than the model")


def settings(precision: str) -> dict[str, object]:
    """What PyTorch is told for a model in this precision."""
    return SETTINGS | (products() if precision == "int8" and can_compile_products() else {})


def compile_(model: EncoderDecoder, precision: str, shortlist: bool, place: Path) -> None:
    """Write what ``NAMES`` has, compiled, into a folder."""
    if can_compile_products():
        model = copy.deepcopy(model)
        with_compiled_products_(model)
    parts = EncoderGraph(model), StepGraph(model, shortlist, first=True), StepGraph(model, shortlist, first=False)
    calls: dict[str, tuple[Tensor, ...]] = {}

    def noting(name: str, graph: nn.Module, tensors: list[Tensor]) -> list[Tensor]:
        calls[name] = tuple(tensors)
        return graph(*tensors)

    encoder, first, later = (partial(noting, name, graph) for name, graph in zip(NAMES, parts, strict=True))
    traced = SimpleNamespace(
        cfg=model.cfg,
        encoder=CompiledEncoder(encoder, model),
        decoder=CompiledDecoder(first, later, model, shortlist),
    )
    examples = []
    for sizes in TRACED:
        for _ in searched(traced, sizes, shortlist):
            pass
        examples.append(dict(calls))
    with shape_of_packed():
        for name, graph in zip(NAMES, parts, strict=True):
            program = exported(graph, *(example[name] for example in examples))
            torch._inductor.aoti_compile_and_package(
                program, package_path=str(place / f"{name}.pt2"), inductor_configs=settings(precision)
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


class Step(NamedTuple):
    """Of a search: what was known before the step, and what was found."""

    tokens: Tensor
    state: Any
    scores: Tensor
    best: Continuations


@torch.no_grad()
def searched(model: Any, sizes: Sizes, shortlist: bool) -> Iterator[Step]:
    """Beam search on fixed random sentences, continued with random tokens.

    The last sentence is finished after the first step.
    """
    cfg: ModelConfig = model.cfg
    generator = torch.Generator().manual_seed(1)
    batch, beam = sizes.batch, sizes.beam
    source = torch.randint(END + 1, cfg.source_symbols, (batch, sizes.length), generator=generator)
    source[:, -1] = END
    candidates = None
    if shortlist:
        wide = batch, 2 * beam + sizes.length
        candidates = torch.randint(END + 1, cfg.target_symbols, wide, generator=generator)
        candidates[:, 0] = END
    if batch > 1:  # one is shorter
        source[0, -2], source[0, -1] = END, cfg.pad
        if candidates is not None:
            candidates[0, -1] = cfg.pad
    state = model.decoder.start(*model.encoder(source), candidates)
    tokens, scores = torch.full((batch, 1), END), torch.zeros(batch, 1)
    left = torch.arange(max(batch - 1, 1))
    follow = following(model.decoder)
    for step in range(min(sizes.steps, cfg.decoder.positions)):
        before = replace(state, memories=[copy.copy(memory) for memory in state.memories])
        best, _ = follow(tokens, state, scores, Wanted(beam, cfg.pad, END))
        yield Step(tokens, before, scores, best)
        rows = left.repeat_interleave(beam)
        if step > 0:
            rows = rows * beam + torch.randint(beam, (len(rows),), generator=generator)
        state.reorder(rows, left if step == 0 and batch > 1 else None)
        drawn = torch.randint(END, cfg.target_symbols, (len(rows), 1), generator=generator)
        tokens = torch.cat([tokens[rows], drawn], 1)
        scores = -torch.rand(len(left), beam, generator=generator)


def compared(model: Any, known: EncoderDecoder, sizes: Sizes, shortlist: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Of each step log-probabilities that a model found and the same of a known model, B x 5K.

    They are the totals of the best, as the known model ranks them and as it scores those that were found, and those of
    beams that would have ended.
    """
    steps = zip(searched(model, sizes, shortlist), searched(known, sizes, shortlist), strict=True)
    for found, expected in steps:
        logits, _ = known.decoder.step(expected.tokens[:, -1:], expected.state)
        own = logits[:, -1].log_softmax(1) + expected.scores.view(-1, 1)
        if expected.state.candidates is not None:
            numbers = expected.state.candidates.numbers
            numbers = numbers.repeat_interleave(len(own) // len(numbers), 0)
            own = own.new_full((len(own), known.cfg.target_symbols), -torch.inf).scatter(1, numbers, own)
        totals, rows, symbols = found.best[:3]
        own = own[rows, symbols].masked_fill(totals.isinf(), -torch.inf)
        yield (
            torch.cat([totals, totals, found.best.if_ended], 1),
            torch.cat([expected.best.totals, own, expected.best.if_ended], 1),
        )


def name_of(model: EncoderDecoder, precision: str, shortlist: bool) -> str:
    """Of all that compiled code depends on: weights, sizes, precision, this code, PyTorch and the processor."""
    known = model, model.cfg, shortlist, settings(precision), torch.__version__, processor()
    digest = hashlib.sha256(" ".join(map(str, known)).encode())
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):  # some are not in the state_dict
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().data)
    own = __file__, *(each.__file__ for each in (compiled, compiled_int8, graphs, precisions, ranking, topk))
    for path in sorted([*Path(resmlp_mt.nn.__file__).parent.glob("*.py"), *(Path(str(each)) for each in own)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def processor() -> str:
    """What tells the processor of this machine from another that understands other instructions."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        return next((line for line in lines if line.startswith("flags")), "")
    return ""


def own_cache() -> Path:
    """The folder for compiled code, the user's alone.

    Raises:
        UserError: it cannot be made, or others can write there
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = Path(home) / "resmlp_mt"
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = cache.stat()
    except OSError as error:
        raise UserError(f"{cache}: cannot be made: {error.strerror or error}: set XDG_CACHE_HOME") from error
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise UserError(
            f"{cache}: others can write there, and what it holds would run: chmod 700 or set XDG_CACHE_HOME"
        )
    return cache


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """One process at a time makes a folder; the others wait."""
    path = place.with_suffix(".lock")
    try:
        lock = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}: set XDG_CACHE_HOME") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        path.unlink(missing_ok=True)  # who waits for it finds the folder
        os.close(lock)


@contextlib.contextmanager
def _readable_errors(place: Path) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except UserError:
        raise
    except Exception as error:  # PyTorch's are of many classes
        reason = str(error).strip().split("\n")[0][:200]
        advice = f"remove {place}" if place.is_dir() else "is there a C++ compiler (g++)?"
        raise UserError(
            f"engine compiled: PyTorch cannot compile or load the model: {type(error).__name__}: {reason}: {advice}"
        ) from error
