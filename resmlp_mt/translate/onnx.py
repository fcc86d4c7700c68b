"""A model's ONNX graphs in the place of PyTorch's modules: the same search, with less time between operators."""

import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.nn import EncoderDecoder
from resmlp_mt.nn.memory import Memory
from resmlp_mt.translate.checking import COMPARED, difference
from resmlp_mt.translate.graphs import GraphEncoder, GraphState

FOLDER = "onnx"
"""Where a model's folder has its graphs."""
ENCODER, STEP = "encoder.onnx", "decoder_step.onnx"
TOLERANCE = 1e-3
"""Of a token's log-probability. In fp32 they differ by about 1e-5; a mistake makes more of it than this."""


class StackedMemory(Memory):
    """What the mixings of all layers remember, in one tensor, L x T x BK x C."""

    def reorder(self, order: Tensor) -> None:
        assert self.kept is not None
        self.kept = self.kept.index_select(2, order)


class OnnxModel:
    """The graphs that ``resmlp-mt export onnx`` wrote, for ``search``, compared with the same model in PyTorch."""

    def __init__(self, place: Path, model: EncoderDecoder, threads: int):
        self.cfg = model.cfg
        if not importlib.util.find_spec("onnxruntime"):
            raise UserError("engine onnx: needs ONNX Runtime: pip install onnxruntime")
        try:
            self.encoder = GraphEncoder(OnnxGraph(place / ENCODER, threads), model)
            self.decoder = OnnxDecoder(OnnxGraph(place / STEP, threads), model)
            found = difference(self, model, compared=COMPARED[1:3])
        except Exception as error:  # ONNX Runtime's are of no class of its own
            reason = str(error).strip().split("\n")[0][:200]
            raise UserError(f"{place}: cannot be used: {reason}: write it again by resmlp-mt export onnx") from error
        if not found <= TOLERANCE:  # nor is nan
            raise UserError(f"{place}: not the graphs of this model: write them again by resmlp-mt export onnx")


class OnnxGraph:
    """A graph in ONNX Runtime, on a CPU."""

    def __init__(self, path: Path, threads: int):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # a mistake comes as an exception too
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs = [each.name for each in self.session.get_inputs()]

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        values = [tensor.numpy() for tensor in tensors]
        return [torch.from_numpy(each) for each in self.session.run(None, dict(zip(self.inputs, values, strict=True)))]


class OnnxDecoder:
    """One step of K beams of each of B sentences, as ``encoder_decoder.Decoder`` has it."""

    def __init__(self, graph: OnnxGraph, model: EncoderDecoder):
        self.graph, self.limit, self.check_positions = graph, model.decoder.limit, model.decoder.check_positions
        past = graph.session.get_inputs()[1].shape  # L x T x R x C
        self.layers, self.channels = past[0], past[3]

    def start(self, source: tuple[Tensor, ...], padding: Tensor, candidates: Tensor | None = None) -> GraphState:
        """The state before the first step; all target tokens are scored."""
        return GraphState(source, [StackedMemory(torch.zeros(self.layers, 0, len(padding), self.channels))])

    def step(self, tokens: Tensor, state: GraphState, attend: Any = ()) -> tuple[Tensor, list[Tensor]]:
        """The last token of each row (BK x 1) to log-probabilities of the next, BK x 1 x V, and the last layer's
        cross-attention, the mean of its heads, 1 x BK x 1 x S.
        """
        (memory,) = state.memories
        self.check_positions(state.length + 1)
        scores, memory.kept, weights = self.graph([tokens[:, 0], memory.kept, *state.source])
        state.length += 1
        return scores.unsqueeze(1), [weights[None, :, None]]
