"""One step of the beam search: the best continuations of each sentence."""

from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from resmlp_mt.translate.topk import topk


class Continuations(NamedTuple):
    """The best 2K continuations of each of B sentences, best first; K of them at least do not end."""

    totals: Tensor  # log-probabilities from the first token on, B x 2K
    rows: Tensor  # which of the BK beams each continues, B x 2K
    symbols: Tensor  # the tokens, B x 2K
    ends: Tensor  # whether they are </s> and possible, B x 2K
    kept: Tensor  # the best K that go on, in their order, B x K numbers below 2K; where there are fewer, others behind
    if_ended: Tensor  # log-probabilities of the beams before this step with </s> behind them, B x K


class Wanted(NamedTuple):
    """Of a step."""

    beam: int  # K, from this step on
    pad: int
    eos: int
    attention: bool = False  # keep the cross-attention


def continuations(
    decoder: Any, tokens: Tensor, state: Any, scores: Tensor, wanted: Wanted
) -> tuple[Continuations, Tensor | None]:
    """Take a step and rank what may follow; also the last layer's cross-attention H x BK x 1 x S, or None.

    Args:
        tokens: the beams so far, BK x T, ``</s>`` first
        scores: log-probabilities of the beams, B x K; B x 1 before the first step
    """
    last = len(state.memories) - 1
    logits, attentions = decoder.step(tokens[:, -1:], state, (last,) if wanted.attention else ())
    numbers = None if state.candidates is None else state.candidates.numbers
    places = torch.arange(logits.size(2), device=logits.device)
    first = tokens.size(1) == 1
    barred = barred_places(places, wanted, numbers is not None, first)
    return ranked(logits[:, -1], scores, wanted, barred, numbers, first), attentions[-1]


def following(decoder: Any) -> Any:
    """``continuations`` for a decoder, which may have a way of its own."""
    return getattr(decoder, "continuations", None) or partial(continuations, decoder)


def ranked(
    logits: Tensor, scores: Tensor, wanted: Wanted, barred: Tensor, numbers: Tensor | None, first: bool
) -> Continuations:
    """The best continuations of each sentence.

    Args:
        logits, scores, barred: BK x V; of the beams, B x K; ``barred_places``, V
        numbers: of the tokens that are scored, B x V, ``</s>`` first; None: all in their order
        first: it is the first step, where K is 1
    """
    sentences, beams = scores.shape
    width = logits.size(1)
    end = wanted.eos if numbers is None else 0
    found = logits.log_softmax(1).add_(scores.view(-1, 1))
    if_ended = found[:, end].view(sentences, beams)
    totals, which = topk(found + barred, sentences, 2 * wanted.beam, blocks=not first)
    first_rows = torch.arange(sentences, device=logits.device).unsqueeze(1) * beams
    rows, places = which // width + first_rows, which % width
    ends = places.eq(end) & totals.isfinite()
    symbols = places if numbers is None else numbers.gather(1, places)
    kept = ends.sort(dim=1, stable=True).indices[:, : wanted.beam]
    return Continuations(totals, rows, symbols, ends, kept, if_ended)


def barred_places(places: Tensor, wanted: Wanted, candidates: bool, first: bool) -> Tensor:
    """What is added to log-probabilities: minus infinity to padding, and to ``</s>`` at first; 0 to others. V numbers.

    With candidates ``</s>`` is the first of them, and padding has the score minus infinity by itself.
    """
    wrong = torch.zeros_like(places, dtype=torch.bool) if candidates else places == wanted.pad
    if first:
        wrong = wrong | (places == (0 if candidates else wanted.eos))
    return torch.where(wrong, -torch.inf, 0.0)


def at_end(best: Continuations, sentences: Tensor, eos: int) -> Continuations:
    """The continuations where some sentences (B, true or false) have no room for any but ``</s>``."""
    totals, order = best.if_ended.sort(dim=1, descending=True)
    more = best.totals.size(1) - totals.size(1)
    totals = F.pad(totals, [0, more], value=-torch.inf)
    rows = F.pad(order + torch.arange(len(order), device=order.device).unsqueeze(1) * order.size(1), [0, more])
    ends = totals.isfinite()
    only = totals, rows, torch.full_like(rows, eos), ends, best.kept, best.if_ended
    return Continuations(
        *(torch.where(sentences.unsqueeze(1), one, other) for one, other in zip(only, best, strict=True))
    )
