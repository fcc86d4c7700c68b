"""A model compiled for this processor by PyTorch, once, and kept in the user's own cache: what is loaded runs."""

import contextlib
import copy
import hashlib
import os
import sys
import warnings
from collections.abc import Iterator
from functools import partial
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
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate.checking import Sizes, difference, random_sentences
from resmlp_mt.translate.compiled import CompiledDecoder, StepGraph
from resmlp_mt.translate.compiled_int8 import can_compile_products, products, shape_of_packed, with_compiled_products_
from resmlp_mt.translate.graphs import EncoderGraph, Graph, GraphEncoder, check_graphs
from resmlp_mt.translate.ranking import Wanted, following

NAMES = "encoder", "first", "later"
TOLERANCE = {"fp32": 1e-3, "bf16": 0.1, "int8": 0.1}
"""Of log-probabilities, on average: a number near the middle between two may be rounded to the other one."""
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
    """A compiled model for ``search``, of one that is on a CPU, folded and in its precision.

    Args:
        shortlist: the search is among some target tokens, not all
    """
    check_graphs(model)
    place = own_cache() / name_of(model, precision, shortlist)
    with _readable_errors(place), torch.no_grad():
        if not place.is_dir():
            with open(place.with_suffix(".lock"), "a") as file:
                lock(file, f"{place}: another process compiles the same for too long", LONGEST_WAIT)
                if not place.is_dir():  # or another process was quicker
                    _make(model, precision, shortlist, place)
        return _loaded(model, shortlist, place)


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
    if can_compile_products():
        model = copy.deepcopy(model)
        with_compiled_products_(model)
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
                program, package_path=str(place / f"{name}.pt2"), inductor_configs=settings(precision)
            )


def settings(precision: str) -> dict[str, object]:
    """What PyTorch is told."""
    return SETTINGS | (products() if precision == "int8" and can_compile_products() else {})


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
        following(model.decoder)(tokens, state, scores, Wanted(beam, cfg.pad, END))
        rows = left.repeat_interleave(beam) * (1 if step == 0 else beam)
        state.reorder(rows, left if step == 0 else None)
        tokens = torch.cat([tokens[rows], torch.full((len(rows), 1), END)], 1)
        scores = torch.zeros(len(left), beam)


def name_of(model: EncoderDecoder, precision: str, shortlist: bool) -> str:
    """Of all that compiled code depends on: weights, sizes, precision, this code, PyTorch and the processor."""
    known = model, model.cfg, shortlist, settings(precision), torch.__version__, processor()
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
        raise UserError(f"engine compiled: PyTorch cannot compile or load it: {reason}: {advice}") from error
