"""Whether ONNX Runtime's scores are PyTorch's."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime
import torch
from fairseq.data import data_utils
from torch import Tensor

from resmlp_mt.export.graphs import Graphs

TOLERANCE = 1e-3
"""Of log-probabilities. In fp32 they differ by about 1e-5; a mistake makes more of it than this."""


class Runtime:
    """The exported graphs in ONNX Runtime, on a CPU."""

    def __init__(self, graphs: Graphs):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4  # errors are raised as exceptions as well
        self._encoder, self._step = (
            onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
            for graph in (graphs.encoder, graphs.decoder_step)
        )
        self._past_shape = [size for size in self._step.get_inputs()[1].shape if isinstance(size, int)]  # L, C

    def log_probabilities(self, source: Tensor, previous: Tensor) -> Tensor:
        """Step by step what the decoder says to ``previous`` (R x T), rows of ``source`` (B x S): R x T x V."""
        keys, values, mask = self._encoder.run(None, {"source": source.numpy()})
        layers, channels = self._past_shape
        past, scores = np.zeros((layers, 0, len(previous), channels), np.float32), []
        for tokens in previous.numpy().T:
            known = {"previous": tokens, "past": past, "keys": keys, "values": values, "mask": mask}
            step, past = self._step.run(None, known)
            scores.append(torch.from_numpy(step))
        return torch.stack(scores, 1)


def largest_difference(model: Any, graphs: Graphs) -> float:
    """How far the log-probabilities are from those of PyTorch, all positions at once, on random sentences.

    Args:
        model: in fp32 for inference, not folded

    Returns:
        the largest difference, infinity where one of the two has no number
    """
    runtime, largest = Runtime(graphs), 0.0
    for source, previous, real in _batches(model):
        beams = len(previous) // len(source)
        with torch.no_grad():
            out = model(source.repeat_interleave(beams, 0), None, previous)
            expected = model.get_normalized_probs(out, log_probs=True)
        difference = (runtime.log_probabilities(source, previous) - expected)[real].abs().max().item()
        largest = max(largest, math.inf if math.isnan(difference) else difference)
    return largest


def _batches(model: Any) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Sources B x S, what the decoder reads R x T, and where that is no padding; the last is as long as can be."""
    generator = torch.Generator().manual_seed(0)
    longest_source, longest_target = model.max_positions()
    pad, eos = model.encoder.dictionary.pad(), model.encoder.dictionary.eos()

    def sentences(dictionary: Any, lengths: list[int], **collation: bool) -> Tensor:
        rows = []
        for length in lengths:
            words = torch.randint(dictionary.nspecial, len(dictionary), (length - 1,), generator=generator)
            rows.append(torch.cat([words, torch.tensor([eos])]))
        return data_utils.collate_tokens(rows, pad, eos, **collation)

    for left_pad, sources, targets in (
        (False, [1], [2]),
        (False, [3, 7, 1], [5, 2, 9]),
        (True, [4, 2, 11], [5, 6, 2, 8, 1, 3]),
        (True, [longest_source, 2], [longest_target, 3]),
    ):
        sources = [min(length, longest_source) for length in sources]
        targets = [min(length, longest_target) for length in targets]
        source = sentences(model.encoder.dictionary, sources, left_pad=left_pad)
        previous = sentences(model.decoder.dictionary, targets, move_eos_to_beginning=True)
        yield source, previous, previous.ne(pad)
