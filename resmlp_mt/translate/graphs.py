"""The encoder and a step of the decoder as functions of tensors alone, for PyTorch's compiler and for ONNX Runtime."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.nn import EncoderDecoder
from resmlp_mt.nn.cross_attention import Source
from resmlp_mt.nn.encoder_decoder import Side, State
from resmlp_mt.nn.memory import Memory
from resmlp_mt.translate.checking import COMPARED, difference

Graph = Callable[[list[Tensor]], list[Tensor]]
FOLDER = "onnx"  # in a model's folder
ENCODER, STEP = "encoder.onnx", "decoder_step.onnx"
TOLERANCE = 1e-3  # of a token's log-probability; in fp32 they differ by about 1e-5


def reason(error: BaseException) -> str:
    """Return the first line of an exception's message, at most 200 characters, or its type if there is no message."""
    return (str(error).strip().split("\n")[0] or type(error).__name__)[:200]


def check_graphs(model: EncoderDecoder) -> None:
    """Check that a model has what the graphs need: cross-attention in every layer of the decoder."""
    if any(layer.cross_attention is None for layer in model.decoder.layers):
        raise UserError("a decoder layer has no cross-attention: such a model is for the engine pytorch alone")


class EncoderGraph(nn.Module):
    """The encoder, and the keys and values that the decoder's layers read."""

    def __init__(self, model: EncoderDecoder):
        super().__init__()
        self.encoder, self.layers = model.encoder, model.decoder.layers

    def forward(self, tokens: Tensor) -> list[Tensor]:
        """Return keys L x B x H x D x S, values L x B x H x S x D, mask B x H x 1 x S of tokens B x S, padding last."""
        padding = tokens.eq(self.encoder.pad)
        encoded = self.encoder.encode(self.encoder.embed(tokens), padding)
        made: list[Source] = [layer.source(encoded) for layer in self.layers]
        mask = self.layers[0].cross_attention.attention.mask(padding, made[0].keys)
        keys = torch.stack([each.keys.transpose(2, 3) for each in made])  # the layout that steps multiply by
        return [keys, torch.stack([each.values for each in made]), mask]


class GraphEncoder:
    """A graph as encoder: source tokens, B x S, padded on either side, to ``EncoderGraph``'s output, padding B x S'."""

    def __init__(self, graph: Graph, encoder: Side):
        self.graph, self.encoder = graph, encoder

    def __call__(self, source: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        tokens, _ = self.encoder.shift_left(source)
        return tuple(self.graph([tokens.contiguous()])), tokens.eq(self.encoder.pad)


class StackedSource(NamedTuple):
    """``EncoderGraph``'s output, the sources of all layers: as the only one of a graph's ``State``."""

    keys: Tensor
    values: Tensor
    mask: Tensor

    def reorder(self, sentences: Tensor) -> "StackedSource":
        """Return the source of the sentences with the indices ``sentences`` (B')."""
        keys, values = (each.index_select(1, sentences) for each in self[:2])
        return StackedSource(keys, values, self.mask.index_select(0, sentences))

    def by_layer(self) -> list[Any]:
        """Return the ``Source`` of each layer, as the decoder takes it."""
        layers = zip(self.keys, self.values, strict=True)
        return [Source(keys.transpose(2, 3), values, self.mask) for keys, values in layers]


class OnnxModel:
    """The graphs that ``resmlp-mt export onnx`` wrote, for ``search``; first compared with the model in PyTorch."""

    def __init__(self, place: Path, model: EncoderDecoder, threads: int):
        self.cfg = model.cfg
        if not importlib.util.find_spec("onnxruntime"):
            raise UserError("engine onnx: needs ONNX Runtime: pip install onnxruntime")
        if not place.is_dir():
            raise UserError(f"{place}: no such folder: run resmlp-mt export onnx {place.parent}")
        try:
            self.encoder = GraphEncoder(OnnxGraph(place / ENCODER, threads), model.encoder)
            self.decoder = OnnxDecoder(OnnxGraph(place / STEP, threads), model)
            found = difference(self, model, compared=COMPARED[1:3])
        except Exception as error:  # ONNX Runtime's exceptions share no class of its own
            problem = f"cannot be used: {reason(error)}: remove it and run resmlp-mt export onnx"
            raise UserError(f"{place}: {problem}") from error
        if not found <= TOLERANCE:  # true for nan, too
            raise UserError(f"{place}: not the graphs of this model: remove them and run resmlp-mt export onnx")


class OnnxGraph:
    """A graph in ONNX Runtime, on a CPU."""

    def __init__(self, path: Path, threads: int):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # only fatal ones: errors also come as exceptions
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs = [each.name for each in self.session.get_inputs()]

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        values = [tensor.numpy() for tensor in tensors]
        return [torch.from_numpy(each) for each in self.session.run(None, dict(zip(self.inputs, values, strict=True)))]


class OnnxDecoder(Side):
    """A decoder that takes its steps by an ONNX graph, with the interface of ``encoder_decoder.Decoder``."""

    def __init__(self, graph: OnnxGraph, model: EncoderDecoder):
        super().__init__(model.decoder.limit, model.decoder.pad)
        self.graph = graph
        self.layers, _, _, self.channels = graph.session.get_inputs()[1].shape  # of the past, L x T x R x C

    def start(self, source: tuple[Tensor, ...], padding: Tensor, candidates: Tensor | None = None) -> State:
        """Return the state before the first step. ``candidates`` are ignored: all target tokens are scored."""
        past = torch.zeros(0, len(padding), self.channels)  # of all layers, one after another: LT x BK x C
        return State([StackedSource(*source)], [Memory(past)])

    def step(self, tokens: Tensor, state: State, attend: Any = ()) -> tuple[Tensor, list[Tensor | None]]:
        """From last tokens, BK x 1, to log-probabilities, BK x 1 x V, and attention, 1 x BK x 1 x S, or None."""
        (source,), (memory,) = state.sources, state.memories
        self.check_positions(state.length + 1)
        past = memory.kept.view(self.layers, state.length, len(tokens), self.channels)
        scores, longer, weights = self.graph([tokens[:, 0], past, *source])
        memory.kept = longer.flatten(0, 1)
        state.length += 1
        return scores.unsqueeze(1), [weights[None, :, None] if attend else None]
