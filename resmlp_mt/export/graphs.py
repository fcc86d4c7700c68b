"""Write the encoder and a step of the decoder as ONNX graphs into a model's folder."""

import importlib.util
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_folder, check_new, remove_unfinished
from resmlp_mt.nn import EncoderDecoder
from resmlp_mt.nn.encoder_decoder import State, fold_
from resmlp_mt.nn.memory import Memory
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate import model_folder
from resmlp_mt.translate.checking import difference
from resmlp_mt.translate.graphs import (
    ENCODER,
    FOLDER,
    STEP,
    TOLERANCE,
    EncoderGraph,
    OnnxModel,
    StackedSource,
    check_graphs,
    reason,
)

OPSET = 17
"""ONNX operator set: old enough for ONNX Runtime since 1.12, new enough for the operators that the model needs."""

Axes = dict[str, dict[int, str]]
"""By a tensor's name: the axes whose sizes can change from call to call. The other sizes are fixed by the model."""
SOURCE: Axes = {"keys": {1: "B", 4: "S"}, "values": {1: "B", 3: "S"}, "mask": {0: "B", 3: "S"}}
STEP_INPUTS: Axes = {"previous": {0: "R"}, "past": {1: "T", 2: "R"}, **SOURCE}
STEP_OUTPUTS: Axes = {"log_probabilities": {0: "R"}, "longer_past": {1: "T + 1", 2: "R"}, "attention": {0: "R", 1: "S"}}


class DecoderStep(nn.Module):
    """One decoding step: the scores of the next token, and the cache of every mixing with one more position."""

    def __init__(self, model: EncoderDecoder):
        super().__init__()
        self.decoder = model.decoder
        end = torch.tensor([[END]])
        state = self.decoder.start(*model.encoder(end))
        state.memories = [Memory() for _ in state.memories]
        self.decoder.step(end, state)
        # how many channels each layer's mixing remembers of a position; 1 for a layer without a mixing
        self.channels = [memory.all().size(2) if memory.positions else 1 for memory in state.memories]

    def forward(self, previous: Tensor, past: Tensor, *source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Do one step of R beams, ordered by sentence. The first step has ``</s>`` as last token, and T = 0.

        Args:
            previous: the last token of each beam, R
            past: the cache, L x T x R x C; a layer that keeps fewer channels is padded with zeros
            source: the outputs of ``EncoderGraph``

        Returns:
            log-probabilities R x V; the cache, L x T+1 x R x C; the last layer's cross-attention, mean of heads, R x S
        """
        layers = len(self.decoder.layers)
        memories = [Memory(past[number, ..., :channels]) for number, channels in enumerate(self.channels)]
        state = State(StackedSource(*source).by_layer(), memories, past.size(1))
        scores, attentions = self.decoder.step(previous.unsqueeze(1), state, (layers - 1,))
        longer = []
        for layer, memory, channels in zip(self.decoder.layers, memories, self.channels, strict=True):
            if layer.mixing is None:
                memory.remember(past.new_zeros(1, past.size(2), channels))
            longer.append(F.pad(memory.all(), [0, max(self.channels) - channels]))
        last = attentions[-1]
        assert last is not None  # as check_graphs ensures
        return scores[:, 0].log_softmax(-1), torch.stack(longer), last.mean(0)[:, 0]


@torch.no_grad()
def write_graphs(folder: Path, model: EncoderDecoder) -> None:
    """Fold a model in fp32 (in place), and write its graphs into an empty folder.

    Tracing records one path through the code, so the example has several sentences, padding, several beams and a past.
    """
    check_graphs(model)
    fold_(model)
    source = torch.full((2, 5), END)
    source[0, 3:] = model.cfg.pad
    encoder, step = EncoderGraph(model), DecoderStep(model)
    known = encoder(source)
    _write(folder / ENCODER, encoder, (source,), {"source": {0: "B", 1: "S"}}, SOURCE)
    past = torch.zeros(model.cfg.decoder_layers, 3, 6, max(step.channels))
    _write(folder / STEP, step, (torch.full((6,), END), past, *known), STEP_INPUTS, STEP_OUTPUTS)


def _write(path: Path, module: nn.Module, example: tuple[Tensor, ...], inputs: Axes, outputs: Axes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about ifs that tracing makes constant, and PyTorch's newer exporter
        try:
            torch.onnx.export(
                module.eval(),
                example,
                path,
                input_names=list(inputs),
                output_names=list(outputs),
                dynamic_axes={**inputs, **outputs},
                opset_version=OPSET,
                dynamo=False,
            )
        except RuntimeError as error:  # the exporter's own errors are such, too
            raise UserError(f"{type(module).__name__}: PyTorch cannot export it to ONNX: {reason(error)}") from error


def add_graphs(folder: Path) -> float:
    """Write the graphs of a model's folder into its folder ``onnx``; return the difference of scores from PyTorch's."""
    for package in "onnx", "onnxruntime":
        if not importlib.util.find_spec(package):
            raise UserError(f"the export needs {package}: pip install onnx onnxruntime")
    place = folder / FOLDER
    check_new(place)
    remove_unfinished(place)
    model, _, _ = model_folder.load(folder)
    with atomic_folder(place) as new:
        write_graphs(new, model)
        try:
            found = difference(OnnxModel(new, model, torch.get_num_threads()), model)
        except UserError as error:  # of the folder ``new``
            why = reason(error.__cause__).replace(f"{new}/", "") if error.__cause__ else "not the model's scores"
            raise UserError(f"the graphs cannot be used: {why}: nothing is written") from error
        if not found <= TOLERANCE:  # also if it is nan
            raise UserError(f"the graphs' scores differ from the model's by {found:.1e}: nothing is written")
        return found
