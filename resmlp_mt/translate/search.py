"""Beam search over an encoder-decoder in pure PyTorch, with the translations and scores of fairseq's."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate.constraints import Constraints
from resmlp_mt.translate.options import Options

BEAM, PENALTY = 4, 1.0  # defaults, if neither the options nor a model's folder has a value


@dataclass(frozen=True)
class Hypothesis:
    """A translation that the search found."""

    tokens: list[int]  # without </s>
    score: float  # by which it is ranked, in natural logarithms
    token_scores: list[float]  # log-probabilities of the tokens and, last, of </s>
    attention: Tensor | None = None  # the last layer's, mean of heads, T x S, both with </s>; None: not wanted, or none


@torch.inference_mode()
def search(
    model: Any,
    source: Tensor,
    options: Options,
    candidates: Tensor | None = None,
    constraints: Constraints | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch: return ``beam`` hypotheses of each sentence, best first; more if tokens are forced.

    As in fairseq, a hypothesis ends when ``</s>`` is among the best ``beam`` continuations, and the first token may not
    be ``</s>``. A sentence that is finished leaves the batch.

    Args:
        model: an ``EncoderDecoder``, or an object with an encoder and a decoder of the same interface
        source: tokens, B x S, each sentence with ``</s>`` at its end, padded on either side
        candidates: for each sentence the tokens that its translations may have, B x L, ``</s>`` first; None: all
        constraints: what the translations must contain; they are changed and cannot be used again
    """
    decoder, beam = model.decoder, options.beam or BEAM
    penalty = PENALTY if options.length_penalty is None else options.length_penalty
    encoded, padding = model.encoder(source)
    state = decoder.start(encoded, padding, candidates)
    lengths = (~padding).sum(1)
    longest = (options.max_len_a * lengths.double() + options.max_len_b).long().clamp(1, decoder.limit - 1)
    if constraints is not None:
        beam += constraints.more_beams

    sentences = torch.arange(source.size(0), device=source.device)  # those that are not finished
    found = torch.zeros_like(sentences)  # number of hypotheses of each of these
    scores = torch.zeros(source.size(0), 1, device=source.device)  # of their beams; one beam before the first step
    tokens = sentences.new_full((source.size(0), 1), END)  # a row a beam
    totals = scores  # of the same rows, scores after each token: BK x T
    attention: Tensor | None = None  # of the same rows: BK x T x S
    source_lengths = lengths.tolist()
    ended: list[list[Hypothesis]] = [[] for _ in source_lengths]
    wanted = StepOptions(beam, model.cfg.pad, options.alignment, constraints)
    follow = continuations_of(decoder)
    shortest = int(longest.min())
    for step in range(int(longest.max()) + 1):
        best, weights = follow(tokens, state, scores, wanted)
        if step >= shortest:
            best = end_full(best, longest == step)
        if weights is not None:
            mean = weights.mean(0)
            attention = mean if attention is None else torch.cat([attention, mean], 1)

        # those among the best K that end, until a sentence has K hypotheses
        ends = best.ends[:, :beam]
        some_end = bool(ends.any())
        if some_end:
            ending = ends & (found.unsqueeze(1) + ends.cumsum(1) <= beam)
            chosen = best.rows[:, :beam][ending]
            # in Python: 10 ** 50 is too large for fp32, and as a whole number for PyTorch
            weight = float(step + 1) ** penalty
            rows = tokens[chosen, 1:].tolist()
            through = torch.cat([totals[chosen], best.totals[:, :beam][ending].unsqueeze(1)], 1)
            gains = through.diff(dim=1).tolist()
            owners = sentences.unsqueeze(1).expand_as(ending)[ending].tolist()
            attended = None if attention is None else attention[chosen]
            for number, (owner, row, total) in enumerate(zip(owners, rows, through[:, -1].tolist(), strict=True)):
                kept = None if attended is None else attended[number, :, : source_lengths[owner]]
                ended[owner].append(Hypothesis(row, total / weight, gains[number], kept))
            found = found + ending.sum(1)

        left = None
        if some_end or step >= shortest:
            going_on = (found < beam) & (longest > step)
            if not going_on.all():
                left = going_on.nonzero().flatten()
                if len(left) == 0:
                    break
                best = Continuations(*(each[left] for each in best))
                sentences, found, longest = sentences[left], found[left], longest[left]
                shortest = int(longest.min())
        chosen = best.rows.gather(1, best.kept).flatten()
        scores = best.totals.masked_fill(best.ends, -torch.inf).gather(1, best.kept)  # nothing follows </s>
        tokens = torch.cat([tokens.index_select(0, chosen), best.symbols.gather(1, best.kept).view(-1, 1)], 1)
        totals = torch.cat([totals.index_select(0, chosen), scores.view(-1, 1)], 1)
        if attention is not None:
            attention = attention[chosen]
        state.reorder(chosen, left)
        if constraints is not None:
            constraints.follow(best.kept, left)
    return [sorted(each, key=lambda one: -one.score) for each in ended]  # of equal scores, the first that ended


class Continuations(NamedTuple):
    """The best 2K continuations of each of B sentences, best first; at least K of them do not end."""

    totals: Tensor  # log-probabilities from the first token on, B x 2K
    rows: Tensor  # which of the BK beams each continues, B x 2K
    symbols: Tensor  # the tokens, B x 2K
    ends: Tensor  # whether they are </s> and possible, B x 2K
    kept: Tensor  # the best K that do not end, B x K numbers below 2K, best first; if there are fewer, then others
    if_ended: Tensor  # log-probabilities of the beams before this step with </s> behind them, B x K


class StepOptions(NamedTuple):
    """The options of a step of the search."""

    beam: int  # K, from this step on
    pad: int
    attention: bool = False  # keep the cross-attention
    constraints: Constraints | None = None


def continuations(
    decoder: Any, tokens: Tensor, state: Any, scores: Tensor, wanted: StepOptions
) -> tuple[Continuations, Tensor | None]:
    """Take a step; return the ranked continuations, and the last layer's cross-attention, H x BK x 1 x S, or None.

    Args:
        tokens: the beams so far, BK x T, ``</s>`` first
        scores: log-probabilities of the beams, B x K; B x 1 before the first step
    """
    last = len(state.memories) - 1
    logits, attentions = decoder.step(tokens[:, -1:], state, (last,) if wanted.attention else ())
    numbers = None if state.candidates is None else state.candidates.numbers
    if wanted.constraints is not None:
        return constrained(logits[:, -1], scores, tokens, numbers, wanted.beam, wanted.constraints), attentions[-1]
    places = torch.arange(logits.size(2), device=logits.device)
    barred = barred_places(places, wanted, numbers is not None, tokens.size(1) == 1)
    return ranked(logits[:, -1], scores, wanted, barred, numbers), attentions[-1]


def continuations_of(decoder: Any) -> Any:
    """Return the decoder's own method ``continuations``, or else the function above for it."""
    return getattr(decoder, "continuations", None) or partial(continuations, decoder)


def best_totals(logits: Tensor, scores: Tensor, barred: Tensor, count: int, end: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return each sentence's best log-probabilities and their places in K V, B x ``count``, those of ``</s>``, B x K.

    ``logits``, ``scores`` and ``barred`` are those of ``ranked``; ``end`` is the place of ``</s>`` among V.
    """
    found = logits.log_softmax(1).add_(scores.view(-1, 1))
    together = (found + barred).view(len(scores), -1)
    return *together.topk(min(count, together.size(1)), 1), found[:, end].view(scores.shape)


def ranked(
    logits: Tensor,
    scores: Tensor,
    wanted: StepOptions,
    barred: Tensor,
    numbers: Tensor | None,
    best: Callable[..., tuple[Tensor, Tensor, Tensor]] = best_totals,
) -> Continuations:
    """Return the best continuations of each sentence.

    Args:
        logits, scores, barred: BK x V; log-probabilities of the beams, B x K; the result of ``barred_places``, V
        numbers: of the tokens that are scored, B x V, ``</s>`` first; None: all tokens in order
        best: ``best_totals``, or a function that returns the same
    """
    sentences, beams = scores.shape
    width = logits.size(1)
    end = END if numbers is None else 0
    totals, which, if_ended = best(logits, scores, barred, 2 * wanted.beam, end)
    first_rows = torch.arange(sentences, device=logits.device).unsqueeze(1) * beams
    rows, places = which // width + first_rows, which % width
    ends = places.eq(end) & totals.isfinite()
    symbols = places if numbers is None else numbers.gather(1, places)
    return Continuations(totals, rows, symbols, ends, first_unfinished(ends, wanted.beam), if_ended)


def constrained(
    logits: Tensor, scores: Tensor, tokens: Tensor, numbers: Tensor | None, beam: int, constraints: Constraints
) -> Continuations:
    """Return the best continuations that ``constraints`` allow, as ``ranked``; ``tokens``, BK x T, are the beams."""
    sentences, beams = scores.shape
    found = logits.log_softmax(1)
    if numbers is not None:
        everything = found.new_full((len(found), len(constraints.words.texts)), -torch.inf)
        found = everything.scatter_(1, numbers.repeat_interleave(beams, 0), found)
    found = found + scores.view(-1, 1)
    totals, rows, symbols = constraints.best(found, tokens, beam)
    ends, if_ended = symbols.eq(END), found[:, END].view(sentences, beams)
    return Continuations(totals, rows, symbols, ends, first_unfinished(ends, beam), if_ended)


def first_unfinished(ends: Tensor, beam: int) -> Tensor:
    """Return the first K continuations of B x 2K that do not end, then others: B x K numbers below 2K."""
    return ends.sort(dim=1, stable=True).indices[:, :beam]


def barred_places(places: Tensor, wanted: StepOptions, candidates: bool, first: bool) -> Tensor:
    """Return V numbers to add to log-probabilities: minus infinity for padding and, in the first step, ``</s>``, or 0.

    With candidates ``</s>`` is the first of them, and padding already has the score minus infinity.
    """
    wrong = torch.zeros_like(places, dtype=torch.bool) if candidates else places == wanted.pad
    if first:
        wrong = wrong | (places == (0 if candidates else END))
    return torch.where(wrong, -torch.inf, 0.0)


def end_full(best: Continuations, sentences: Tensor) -> Continuations:
    """Return the continuations, where those of some ``sentences`` (B, true or false) may only be ``</s>``."""
    totals, order = best.if_ended.sort(dim=1, descending=True)
    more = best.totals.size(1) - totals.size(1)
    totals = F.pad(totals, [0, more], value=-torch.inf)
    rows = F.pad(order + torch.arange(len(order), device=order.device).unsqueeze(1) * order.size(1), [0, more])
    ends = totals.isfinite()
    only = totals, rows, torch.full_like(rows, END), ends, best.kept, best.if_ended
    return Continuations(
        *(torch.where(sentences.unsqueeze(1), one, other) for one, other in zip(only, best, strict=True))
    )
