"""The encoder and the decoder step as ONNX graphs."""

import io
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.export.steps import DecoderStep, Encoder, check_exportable
from resmlp_mt.nn import EncoderDecoder
from resmlp_mt.translate.graphs import kept_channels

OPSET = 17
"""of ONNX: old enough for any ONNX Runtime since 1.12, new enough for what the model needs"""

Shapes = dict[str, list[str]]

ENCODER_INPUTS: Shapes = {"source": ["B", "S"]}
ENCODER_OUTPUTS: Shapes = {
    "keys": ["L", "B", "H", "S", "D"],
    "values": ["L", "B", "H", "S", "D"],
    "mask": ["B", "S"],
}
STEP_INPUTS: Shapes = {"previous": ["R"], "past": ["L", "T", "R", "C"], **ENCODER_OUTPUTS}
STEP_OUTPUTS: Shapes = {
    "log_probabilities": ["R", "V"],
    "longer_past": ["L", "T + 1", "R", "C"],
    "attention": ["R", "S"],
}

DYNAMIC = "B", "S", "R", "T", "T + 1"
"""Sizes that are free at every call; L, H, D, C and V are the model's."""


@dataclass(frozen=True)
class Graphs:
    """Both, as the bytes of ONNX files."""

    encoder: bytes
    decoder_step: bytes


def graphs_of(model: Any) -> Graphs:
    """The graphs of a fairseq model.

    Args:
        model: a ResMLPTransformerModel on a CPU, left as it is

    Raises:
        UserError: a part of the model has no step or nothing like it in ONNX
    """
    check_exportable(model)
    return traced(model.without_fairseq().float(), model.encoder.dictionary.eos())


@torch.no_grad()
def traced(model: EncoderDecoder, eos: int) -> Graphs:
    """Trace a model in fp32, which is folded by that.

    Tracing follows one example and keeps the way that it took. So the example is one that needs all there is: several
    sentences, padding, several beams, and a past; what then depends on sizes is only what is written with them.

    Raises:
        UserError: a part of the model has nothing like it in ONNX
    """
    model.fold_()
    source = torch.full((2, 5), eos)
    source[0, :2] = model.cfg.pad

    encoder = Encoder(model)
    known = encoder(source)
    encoder_graph = _traced(encoder, (source,), ENCODER_INPUTS, ENCODER_OUTPUTS)
    previous = torch.full((6,), eos)
    past = torch.zeros(model.cfg.decoder_layers, 3, 6, kept_channels(model))
    step_graph = _traced(DecoderStep(model), (previous, past, *known), STEP_INPUTS, STEP_OUTPUTS)
    return Graphs(encoder_graph, step_graph)


def _traced(module: nn.Module, example: tuple[Tensor, ...], inputs: Shapes, outputs: Shapes) -> bytes:
    axes = {
        name: {axis: size for axis, size in enumerate(shape) if size in DYNAMIC}
        for name, shape in {**inputs, **outputs}.items()
    }
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # of every if that tracing has settled, and of PyTorch's newer exporter: it refuses ifs that depend on data, of
        # which fairseq's encoder and decoder have one each, on whether there is padding
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(
                module.eval(),
                example,
                stream,  # type: ignore[arg-type]  # files in memory are fine without dynamo
                input_names=list(inputs),
                output_names=list(outputs),
                dynamic_axes=axes,
                opset_version=OPSET,
                dynamo=False,
            )
        except RuntimeError as error:  # the exporter raises them, too
            reason = str(error).strip().split("\n")[0]
            raise UserError(f"{type(module).__name__}: PyTorch cannot export it to ONNX: {reason}") from error
    return stream.getvalue()
