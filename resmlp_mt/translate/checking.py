"""Check that an engine computes what the model does: compare its search's scores with the model's teacher forcing."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from resmlp_mt.nn import EncoderDecoder, ModelConfig
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate.options import Options
from resmlp_mt.translate.search import Hypothesis, search


class Sizes(NamedTuple):
    """The sizes of a search on random sentences."""

    batch: int
    beam: int
    length: int
    steps: int


COMPARED = Sizes(1, 1, 1, 7), Sizes(1, 4, 7, 3), Sizes(2, 1, 6, 3), Sizes(6, 3, 3, 18)


def random_sentences(cfg: ModelConfig, sizes: Sizes, shortlist: bool) -> tuple[Tensor, Tensor | None]:
    """Return the same random sources at each call, B x S (the first is shorter), and candidates if ``shortlist``."""
    generator = torch.Generator().manual_seed(1)
    length = min(sizes.length, cfg.encoder.positions)
    source = torch.randint(END + 1, cfg.source_symbols, (sizes.batch, length), generator=generator)
    source[:, -1] = END
    candidates = None
    if shortlist:
        width = 2 * sizes.beam + length
        candidates = torch.stack([torch.randperm(cfg.target_symbols, generator=generator)[:width] for _ in source])
        candidates = candidates.masked_fill(candidates <= END, cfg.pad)
        candidates = torch.cat([torch.full((len(source), 1), END), candidates], 1)
    if sizes.batch > 1 and length > 1:
        source[0, -2], source[0, -1] = END, cfg.pad
    return source, candidates


def difference(
    engine: Any, model: EncoderDecoder, shortlist: bool = False, compared: Sequence[Sizes] = COMPARED
) -> float:
    """Return how far a token's score is from the model's on average: the largest mean of all sizes; nan if one is."""
    found: list[float] = []
    for sizes in compared:
        source, candidates = random_sentences(model.cfg, sizes, shortlist)
        options = Options(beam=sizes.beam, length_penalty=0.0, max_len_b=sizes.steps)
        hypotheses = search(engine, source, options, candidates)
        owners = torch.tensor([row for row, each in enumerate(hypotheses) for _ in each])
        every = [one for each in hypotheses for one in each]
        if not every:  # no score was a number
            return float("nan")
        expected = scores(model, source[owners], every, None if candidates is None else candidates[owners])
        lengths = torch.tensor([len(one.tokens) + 1 for one in every])
        found.append(float(((torch.tensor([one.score for one in every]) - expected).abs() / lengths).mean()))
    return float(torch.tensor(found).max())  # Python's max could lose a nan


@torch.inference_mode()
def scores(model: Any, source: Tensor, hypotheses: Sequence[Hypothesis], candidates: Tensor | None) -> Tensor:
    """Return the log-probabilities of R translations of R sources, by teacher forcing: R."""
    target = pad_sequence([torch.tensor([*each.tokens, END]) for each in hypotheses], True, model.cfg.pad)
    previous = pad_sequence([torch.tensor([END, *each.tokens]) for each in hypotheses], True, model.cfg.pad)
    logits = model(source, previous)
    if candidates is not None:
        known = torch.zeros(len(logits), logits.size(2), dtype=torch.bool).scatter(1, candidates, True)
        known[:, model.cfg.pad] = False
        logits = logits.masked_fill(~known.unsqueeze(1), -torch.inf)
    found = logits.log_softmax(-1).gather(2, target.unsqueeze(2)).squeeze(2)
    return found.masked_fill(target == model.cfg.pad, 0.0).sum(1)
