"""An exported model's ONNX graphs in the place of PyTorch's modules: the same search, with less time between operators.

A step of PyTorch's modules is some hundred small operators, each of which takes some microseconds before it computes
anything. ONNX Runtime has less of that, which gains most with few sentences at a time.
"""

import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.nn.among import Among
from resmlp_mt.nn.encoder_decoder import EncoderDecoder
from resmlp_mt.text.tokenizer import END

FOLDER = "onnx"
"""Where a model's folder has its graphs."""
TOLERANCE = 1e-3
"""Of a log-probability, as in ``resmlp-mt export onnx``."""

Source = tuple[Tensor, Tensor, Tensor]
"""What the encoder gives of B sentences: keys and values, L x B x H x S x D, and what is added at padding, B x S."""


class State(NamedTuple):
    """What is kept between two steps: as ``encoder_decoder.State``, but in a tensor for all layers.

    Attributes:
        past: what the mixings keep of BK rows, L x T x BK x C
    """

    source: Source
    past: Tensor
    among: Among | None = None


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
                logits, _, _ = self.decoder.step(eos, self.decoder.start(*self.encoder(eos)))
                expected, _, _ = model.decoder.step(eos, model.decoder.start(*model.encoder(eos)))
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

    def __call__(self, source: Tensor) -> tuple[Source, Tensor]:
        keys, values, mask = self.graph(source=source)
        return (keys, values, mask), source.eq(self.pad)


class OnnxDecoder:
    """One step of K beams of each of B sentences, as ``encoder_decoder.Decoder`` has it."""

    def __init__(self, graph: Any, model: EncoderDecoder):
        self.graph, self.limit = graph, model.decoder.limit
        self.layers, self.dim = model.cfg.decoder_layers, model.cfg.decoder.dim

    def start(self, source: Source, padding: Tensor, candidates: Tensor | None = None) -> State:
        """The state before the first step; all target tokens are scored."""
        return State(source, torch.zeros(self.layers, 0, len(padding), self.dim))

    def step(self, tokens: Tensor, state: State, need_weights: bool = False) -> tuple[Tensor, Tensor, State]:
        """The last token of each row to the scores of the next; as that of ``encoder_decoder.Decoder``.

        Args:
            tokens: BK x 1

        Returns:
            log-probabilities, BK x 1 x V; the cross-attention, the mean of its heads, 1 x BK x 1 x S; the longer state

        Raises:
            ValueError: more positions than the model has
        """
        keys, values, mask = state.source
        if state.past.size(1) >= self.limit:
            raise ValueError(f"a sentence of {state.past.size(1) + 1} positions, but the model has {self.limit}")
        known = {"past": state.past, "keys": keys, "values": values, "mask": mask}
        scores, past, weights = self.graph(previous=tokens[:, 0], **known)
        return scores.unsqueeze(1), weights[None, :, None], state._replace(past=past)

    def reorder(self, state: State, rows: Tensor, sentences: Tensor | None = None) -> State:
        """Give each beam the past of the beam that it continues; as ``encoder_decoder.Decoder``."""
        source = state.source
        if sentences is not None:
            keys, values, mask = source
            source = keys.index_select(1, sentences), values.index_select(1, sentences), mask.index_select(0, sentences)
        return State(source, state.past.index_select(2, rows))
