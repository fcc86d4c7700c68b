"""Whether ONNX Runtime's scores are PyTorch's."""

import math
from typing import Any

import torch
from torch import Tensor

from resmlp_mt.export.batches import batches
from resmlp_mt.export.graphs import Graphs
from resmlp_mt.translate.onnx import Graph

TOLERANCE = 1e-3
"""Of log-probabilities. In fp32 they differ by about 1e-5; a mistake makes more of it than this."""


class Runtime:
    """The exported graphs in ONNX Runtime, on a CPU."""

    def __init__(self, graphs: Graphs):
        self._encoder, self._step = (
            Graph(graph, torch.get_num_threads()) for graph in (graphs.encoder, graphs.decoder_step)
        )
        self._past_shape = [size for size in self._step.session.get_inputs()[1].shape if isinstance(size, int)]  # L, C

    def log_probabilities(self, source: Tensor, previous: Tensor) -> Tensor:
        """Step by step what the decoder says to ``previous`` (R x T), rows of ``source`` (B x S): R x T x V."""
        keys, values, mask = self._encoder(source=source)
        layers, channels = self._past_shape
        past, scores = torch.zeros(layers, 0, len(previous), channels), []
        for tokens in previous.t():
            step, past, _ = self._step(previous=tokens, past=past, keys=keys, values=values, mask=mask)
            scores.append(step)
        return torch.stack(scores, 1)


def largest_difference(model: Any, graphs: Graphs) -> float:
    """How far the log-probabilities are from those of PyTorch, all positions at once, on random sentences.

    Args:
        model: in fp32 for inference, not folded

    Returns:
        the largest difference, infinity where one of the two has no number
    """
    runtime, largest = Runtime(graphs), 0.0
    for source, previous, real in batches(model):
        beams = len(previous) // len(source)
        with torch.no_grad():
            out = model(source.repeat_interleave(beams, 0), None, previous)
            expected = model.get_normalized_probs(out, log_probs=True)
        difference = (runtime.log_probabilities(source, previous) - expected)[real].abs().max().item()
        largest = max(largest, math.inf if math.isnan(difference) else difference)
    return largest
