"""Sentences without a word."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

Hypotheses = list[list[dict[str, Tensor]]]


def translate_nothing_to_nothing() -> None:
    """Give a sentence without a word an empty translation, whatever a model says, which must say something."""
    TranslationTask.inference_step = _with_empty_ones(TranslationTask.inference_step)


def _with_empty_ones(inference_step: Callable[..., Hypotheses]) -> Callable[..., Hypotheses]:
    @functools.wraps(inference_step)
    def with_empty_ones(
        self: TranslationTask,
        generator: Any,
        models: Any,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
    ) -> Hypotheses:
        found = inference_step(self, generator, models, sample, prefix_tokens=prefix_tokens, constraints=constraints)
        if not isinstance(generator, SequenceGenerator) or prefix_tokens is not None:
            return found  # a given target is scored, or continued
        tokens = sample["net_input"]["src_tokens"]
        empty = tokens.ne(self.source_dictionary.pad()).sum(1) <= 1  # </s> alone
        if constraints is not None:
            empty &= constraints[:, 0].to(empty.device) == 0  # numbers of words that must come
        for number in empty.nonzero().flatten().tolist():
            found[number] = [_nothing(tokens.new_tensor([self.target_dictionary.eos()]))]
        return found

    return with_empty_ones


def _nothing(end: Tensor) -> dict[str, Tensor]:
    """A hypothesis as ``SequenceGenerator`` gives it."""
    scores = torch.zeros(1, device=end.device)
    nowhere = torch.empty(0)
    return {
        "tokens": end,
        "score": scores[0],
        "positional_scores": scores,
        "attention": nowhere,
        "alignment": nowhere,
    }
