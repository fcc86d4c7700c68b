"""Beam search over an encoder-decoder in pure PyTorch, with the translations and scores of fairseq's."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resmlp_mt.translate.ranking import Continuations, Wanted, at_end, following


@dataclass(frozen=True)
class SearchOptions:
    """How translations are searched for; the defaults are those of fairseq-generate, but for the beam.

    Attributes:
        max_len_a, max_len_b: most tokens of a translation, without ``</s>``, are ``a S + b`` for S tokens of the
            source, ``</s>`` included; never more than the model's positions
    """

    beam: int = 4  # translations that are followed at a time, and found in the end
    length_penalty: float = 1.0  # T tokens, with </s>, are ranked by their log-probability / T ** this
    max_len_a: float = 0.0
    max_len_b: int = 200
    attention: bool = False  # keep the cross-attention


@dataclass(frozen=True)
class Hypothesis:
    """A translation that was found."""

    tokens: list[int]  # without </s>
    score: float  # by which it is ranked, in natural logarithms
    attention: Tensor | None = None  # the last layer's, mean of heads, T x S, </s> among both; if asked for and there


@torch.inference_mode()
def search(
    model: Any, source: Tensor, eos: int, options: SearchOptions, candidates: Tensor | None = None
) -> list[list[Hypothesis]]:
    """Translate a batch: ``beam`` hypotheses of each sentence, best first.

    As in fairseq, they end in the order in which ``</s>`` is among the best ``beam`` continuations, and the first step
    may not be ``</s>``. A sentence that is finished leaves the batch.

    Args:
        model: an ``EncoderDecoder``, or what has an encoder and a decoder like its own
        source: tokens, B x S, each sentence with ``</s>`` at its end, padded on either side
        candidates: for each sentence the tokens that its translations may have, B x L, ``</s>`` first; None: all
    """
    decoder, beam = model.decoder, options.beam
    memory, padding = model.encoder(source)
    state = decoder.start(memory, padding, candidates)
    lengths = (~padding).sum(1)
    longest = (options.max_len_a * lengths.double() + options.max_len_b).long().clamp(1, decoder.limit - 1)

    sentences = torch.arange(source.size(0), device=source.device)  # that are not finished
    found = torch.zeros_like(sentences)  # hypotheses of each of these
    scores = torch.zeros(source.size(0), 1, device=source.device)  # of their beams; one beam before the first step
    tokens = sentences.new_full((source.size(0), 1), eos)  # a row a beam
    attention: Tensor | None = None  # the same rows, x T x S
    known = lengths.tolist()
    ended: list[list[Hypothesis]] = [[] for _ in known]
    wanted = Wanted(beam, model.cfg.pad, eos, options.attention)
    follow = following(decoder)
    for step in range(int(longest.max()) + 1):
        best, weights = follow(tokens, state, scores, wanted)
        if step >= longest.min():
            best = at_end(best, longest == step, eos)
        if weights is not None:
            mean = weights.mean(0)
            attention = mean if attention is None else torch.cat([attention, mean], 1)

        # those among the best K that end, as long as there is room for them
        ending = best.ends[:, :beam] & (found.unsqueeze(1) + best.ends[:, :beam].cumsum(1) <= beam)
        if ending.any():
            chosen = best.rows[:, :beam][ending]
            # by Python: ten tokens to the power of 50 are too many for fp32, and as whole numbers for PyTorch
            weight = float(step + 1) ** options.length_penalty
            totals, rows = best.totals[:, :beam][ending].tolist(), tokens[chosen, 1:].tolist()
            owners = sentences.unsqueeze(1).expand_as(ending)[ending].tolist()
            attended = None if attention is None else attention[chosen]
            for number, (owner, row, total) in enumerate(zip(owners, rows, totals, strict=True)):
                kept = None if attended is None else attended[number, :, : known[owner]]
                ended[owner].append(Hypothesis(row, total / weight, kept))
            found = found + ending.sum(1)

        going_on = (found < beam) & (longest > step)
        left = None if going_on.all() else going_on.nonzero().flatten()
        if left is not None:
            if len(left) == 0:
                break
            best = Continuations(*(each[left] for each in best))
            sentences, found, longest = sentences[left], found[left], longest[left]
        chosen = best.rows.gather(1, best.kept).flatten()
        scores = best.totals.masked_fill(best.ends, -torch.inf).gather(1, best.kept)  # nothing follows </s>
        tokens = torch.cat([tokens[chosen], best.symbols.gather(1, best.kept).view(-1, 1)], 1)
        if attention is not None:
            attention = attention[chosen]
        state.reorder(chosen, left)
    return [sorted(each, key=lambda one: -one.score) for each in ended]  # of equal ones the one that ended first
