"""An exported model's ONNX graphs in the place of PyTorch's modules: the same search, with less time between operators.

A step of PyTorch's modules is some hundred small operators, each of which takes some microseconds before it computes
anything. ONNX Runtime has less of that, which gains most with few sentences at a time.
"""

import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.nn import EncoderDecoder
from resmlp_mt.nn.memory import Memory
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate.graphs import GraphState, kept_channels

FOLDER = "onnx"
"""Where a model's folder has its graphs."""
TOLERANCE = 1e-3
"""Of a log-probability, as in ``resmlp-mt export onnx``."""


class StackedMemory(Memory):
    """What the mixings of all layers remember, in one tensor, L x T x BK x C."""

    def reorder(self, order: Tensor) -> None:
        assert self.kept is not None
        self.kept = self.kept.index_select(2, order)


class OnnxModel:
    """The graphs of a model with the face of an ``EncoderDecoder``, as far as ``search`` looks at it.

    Args:
        folder: of the model; its folder ``onnx`` has what ``resmlp-mt export onnx`` wrote
        model: the same in PyTorch: for the sizes, and to see that the graphs are its own
        threads: of the processor

    Raises:
        UserError: there are no graphs, they are broken or another model's, or ONNX Runtime is not installed
    """

    def __init__(self, folder: Path, model: EncoderDecoder, threads: int):
        self.cfg, place = model.cfg, folder / FOLDER
        if not importlib.util.find_spec("onnxruntime"):
            raise UserError("engine onnx: needs ONNX Runtime: pip install onnxruntime")
        self.encoder = OnnxEncoder(_read(place / "encoder.onnx", threads), model.cfg.pad)
        self.decoder = OnnxDecoder(_read(place / "decoder_step.onnx", threads), model)
        self._check(place, model)

    def _check(self, place: Path, model: EncoderDecoder) -> None:
        eos = torch.tensor([[END]])
        try:
            with torch.inference_mode():
                logits, _ = self.decoder.step(eos, self.decoder.start(*self.encoder(eos)))
                expected, _ = model.decoder.step(eos, model.decoder.start(*model.encoder(eos)))
            same = torch.allclose(logits, expected.log_softmax(-1), rtol=0, atol=TOLERANCE)
        except (ValueError, RuntimeError):  # other inputs, other sizes
            same = False
        if not same:
            raise UserError(f"{place}: not the graphs of this model: write them again by resmlp-mt export onnx")


def _read(path: Path, threads: int) -> "Graph":
    if not path.is_file():
        raise UserError(f"{path}: no such file: write it by resmlp-mt export onnx CHECKPOINT --out {path.parent}")
    try:
        return Graph(path, threads)
    except Exception as error:  # ONNX Runtime's are of no class of its own
        reason = str(error).strip().split("\n")[0][:200]
        raise UserError(f"{path}: ONNX Runtime cannot read it: {reason}: export it again") from error


class Graph:
    """A graph in ONNX Runtime, on a CPU.

    Args:
        graph: a file, or what would be in it
        threads: of the processor
    """

    def __init__(self, graph: Path | bytes, threads: int):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # a mistake comes as an exception too
        self.session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def __call__(self, **inputs: Tensor) -> list[Tensor]:
        """The outputs, in their order."""
        found = self.session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
        return [torch.from_numpy(each) for each in found]


class OnnxEncoder:
    """Source tokens (B x S, padded on either side) to what the steps read, and where padding is."""

    def __init__(self, graph: Any, pad: int):
        self.graph, self.pad = graph, pad

    def __call__(self, source: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        return tuple(self.graph(source=source)), source.eq(self.pad)


class OnnxDecoder:
    """One step of K beams of each of B sentences, as ``encoder_decoder.Decoder`` has it."""

    def __init__(self, graph: Any, model: EncoderDecoder):
        self.graph, self.limit, self.check_positions = graph, model.decoder.limit, model.decoder.check_positions
        self.sizes = model.cfg.decoder_layers, kept_channels(model)

    def start(self, source: tuple[Tensor, ...], padding: Tensor, candidates: Tensor | None = None) -> GraphState:
        """The state before the first step; all target tokens are scored."""
        layers, channels = self.sizes
        return GraphState(source, [StackedMemory(torch.zeros(layers, 0, len(padding), channels))])

    def step(self, tokens: Tensor, state: GraphState, attend: Any = ()) -> tuple[Tensor, list[Tensor]]:
        """The last token of each row to the scores of the next; as that of ``encoder_decoder.Decoder``.

        Args:
            tokens: BK x 1

        Returns:
            log-probabilities, BK x 1 x V; the last layer's cross-attention, the mean of its heads, 1 x BK x 1 x S
        """
        (memory,), (keys, values, mask) = state.memories, state.source
        self.check_positions(state.length + 1)
        known = {"past": memory.kept, "keys": keys, "values": values, "mask": mask}
        scores, memory.kept, weights = self.graph(previous=tokens[:, 0], **known)
        state.length += 1
        return scores.unsqueeze(1), [weights[None, :, None]]
