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

    beams = Beams.first(source, lengths)
    ended: list[list[Hypothesis]] = [[] for _ in source]
    wanted = StepOptions(beam, model.cfg.pad, options.alignment, constraints)
    take_step = continuations_of(decoder)
    shortest = int(longest.min())  # no sentence has to end before this step
    for step in range(int(longest.max()) + 1):
        best, weights = take_step(beams.tokens, state, beams.scores, wanted)
        if step >= shortest:
            best = end_full(best, longest == step)
        if weights is not None:
            beams.attend(weights.mean(0))

        some_end = bool(best.ends[:, :beam].any())
        if some_end:
            # by Python: fp32 cannot hold 10 ** 50
            for sentence, hypothesis in beams.ended(best, beam, float(step + 1) ** penalty):
                ended[sentence].append(hypothesis)

        left = None
        if some_end or step >= shortest:
            unfinished = (beams.found < beam) & (longest > step)
            if not unfinished.any():
                break
            if not unfinished.all():
                left = unfinished.nonzero().flatten()
                best = Continuations(*(each[left] for each in best))
                longest = longest[left]
                shortest = int(longest.min())
        chosen = beams.follow(best, left)
        state.reorder(chosen, left)
        if constraints is not None:
            constraints.follow(best.kept, left)
    return [sorted(each, key=lambda one: -one.score) for each in ended]  # of equal scores, the first that ended


@dataclass
class Beams:
    """The beams of the B sentences that are not finished, K for each, but one before the first step."""

    sentences: Tensor  # their numbers in the batch, B
    found: Tensor  # how many hypotheses each has, B
    scores: Tensor  # log-probabilities of the beams, B x K; minus infinity: ended
    tokens: Tensor  # BK x T, </s> first
    totals: Tensor  # log-probabilities from the first token up to each, BK x T
    source_lengths: list[int]  # of all sentences of the batch
    attention: Tensor | None = None  # BK x T x S

    @classmethod
    def first(cls, source: Tensor, lengths: Tensor) -> "Beams":
        """Return the beams before the first step; ``source`` is B x S, ``lengths`` B."""
        sentences = torch.arange(len(source), device=source.device)
        scores = torch.zeros(len(source), 1, device=source.device)
        tokens = sentences.new_full((len(source), 1), END)
        return cls(sentences, torch.zeros_like(sentences), scores, tokens, scores, lengths.tolist())

    def attend(self, weights: Tensor) -> None:
        """Append the cross-attention of a step, BK x 1 x S."""
        self.attention = weights if self.attention is None else torch.cat([self.attention, weights], 1)

    def ended(self, best: "Continuations", beam: int, weight: float) -> list[tuple[int, Hypothesis]]:
        """Return (sentence, hypothesis) for those that end among the best ``beam``, until a sentence has as many.

        Their scores are their log-probabilities divided by ``weight``.
        """
        ends = best.ends[:, :beam]
        ending = ends & (self.found.unsqueeze(1) + ends.cumsum(1) <= beam)
        self.found = self.found + ending.sum(1)
        rows = best.rows[:, :beam][ending]
        numbers = self.sentences.unsqueeze(1).expand_as(ending)[ending].tolist()
        tokens = self.tokens[rows, 1:].tolist()
        totals = torch.cat([self.totals[rows], best.totals[:, :beam][ending].unsqueeze(1)], 1)
        scores, gains = [total / weight for total in totals[:, -1].tolist()], totals.diff(dim=1).tolist()
        attention: list[Tensor | None] = [None] * len(rows)
        if self.attention is not None:
            attention = [of[:, : self.source_lengths[n]] for n, of in zip(numbers, self.attention[rows], strict=True)]
        return list(zip(numbers, map(Hypothesis, tokens, scores, gains, attention), strict=True))

    def follow(self, best: "Continuations", left: Tensor | None) -> Tensor:
        """Follow the best K continuations, of the sentences ``left`` (None: all); return the row each continues, BK."""
        if left is not None:
            self.sentences, self.found = self.sentences[left], self.found[left]
        rows = best.rows.gather(1, best.kept).flatten()
        self.scores = best.totals.masked_fill(best.ends, -torch.inf).gather(1, best.kept)  # nothing follows </s>
        self.tokens = torch.cat([self.tokens[rows], best.symbols.gather(1, best.kept).view(-1, 1)], 1)
        self.totals = torch.cat([self.totals[rows], self.scores.view(-1, 1)], 1)
        if self.attention is not None:
            self.attention = self.attention[rows]
        return rows


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
    both = zip(only, best, strict=True)
    return Continuations(*(torch.where(sentences.unsqueeze(1), one, other) for one, other in both))
