"""The search, compared with fairseq's own with the same weights: the same hypotheses, scores and attention."""

from types import SimpleNamespace

import pytest
import torch
from builders import EOS, PAD, batch, build, pairs
from fairseq.sequence_generator import SequenceGenerator
from translate.engines import assert_equal

from resmlp_mt.translate.options import Options
from resmlp_mt.translate.search import search

SOURCES, _ = pairs((5, 1), (9, 1), (2, 1), (9, 1), (13, 1))
MODELS = [
    {"mixing_heads": 8, "mixing_relative": True},
    *({"token_mixing": kind} for kind in ("conv", "none")),
    {"no_cross_attention": True},
    {"separate": True},
    {"adaptive_softmax_cutoff": [10, 20], "criterion": "adaptive_loss"},
    {"words": 6},
]
OPTIONS = [{}, {"beam": 1}, {"beam": 5}, {"length_penalty": 1.4}, {"length_penalty": 0.0}, {"max_len_b": 3}]
OPTIONS += [{"max_len_a": 0.7, "max_len_b": 2}, {"max_len_a": 3.0}]  # the last: more than the model's positions
CASES = [*(({}, options) for options in OPTIONS), *((variant, {"max_len_b": 12}) for variant in MODELS)]


def by_fairseq(model, sources, options):
    """Return what fairseq finds in the form of ``search``; the attention is S x T."""
    penalty = 1.0 if options.length_penalty is None else options.length_penalty
    how = {"max_len_a": options.max_len_a, "max_len_b": options.max_len_b, "normalize_scores": penalty > 0}
    generator = SequenceGenerator([model], model.decoder.dictionary, options.beam or 4, len_penalty=penalty, **how)
    tokens = batch(sources, left_pad=True)
    found = generator.generate([model], {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}})
    for one in (one for each in found for one in each):
        one.update(tokens=one["tokens"].tolist()[:-1], token_scores=one["positional_scores"].tolist())
    return [[SimpleNamespace(**one) for one in each] for each in found]


def ready(seed=4, **options):
    """Return a model that ends some sentences early and others late, and the same model in pure PyTorch."""
    model = build(seed=seed, **options).eval()
    if model.decoder.adaptive_softmax is None:
        with torch.no_grad():
            end = model.decoder.output_projection.weight[EOS]
            model.decoder.layer_norm.beta += end / end.norm()
    return model, model.without_fairseq()


@pytest.mark.parametrize(("variant", "options"), CASES, ids=str)
def test_same_hypotheses_and_scores(variant, options):
    options = Options(**options)
    model, ours = ready(**variant)
    words = variant.get("words", 40)
    sources = [[4 + (token - 4) % words if token > EOS else token for token in source] for source in SOURCES]
    # one at a time if fairseq's longest translation depends on the longest sentence of the batch
    batches = [[source] for source in sources] if options.max_len_a else [sources]
    expected = [found for each in batches for found in by_fairseq(model, each, options)]
    assert_equal(search(ours, batch(sources, left_pad=True, extra=3), options), expected)
    assert all(len(each) == (options.beam or 4) for each in expected)


def test_sentences_end_at_different_steps_and_too_long_ones_are_errors(trained):
    """The comparisons need this: some hypotheses end on their own, at different lengths, others at the limit."""
    lengths = {len(one.tokens) for each in search(trained[1], batch(SOURCES), Options(max_len_b=30)) for one in each}
    assert len(lengths) > 5 and min(lengths) < 5 and max(lengths) == 30
    with pytest.raises(ValueError, match="65 positions, but the model has 64"):
        search(trained[1], batch(pairs((65, 1))[0]), Options())


def test_attention_is_fairseqs(trained):
    model, ours = trained
    options = Options(alignment=True, max_len_b=20)
    expected = by_fairseq(model, SOURCES, options)
    found = search(ours, batch(SOURCES), options)
    for source, one, other in zip(SOURCES, found, expected, strict=True):
        for hypothesis, theirs in zip(one, other, strict=True):
            own = theirs.attention[-len(source) :].t()  # fairseq's is padded on the left
            torch.testing.assert_close(hypothesis.attention, own.to(hypothesis.attention.dtype), atol=1e-5, rtol=0)
    _, ours = ready(no_cross_attention=True)
    found = search(ours, batch(SOURCES), Options(alignment=True, max_len_b=3))
    assert all(one.attention is None for each in found for one in each)


def test_nothing_follows_the_end_in_a_beam_wider_than_the_words(trained):
    """All translations of up to two tokens, of three words: fewer than the beam."""
    _, ours = trained
    source, words = batch(pairs((5, 1))[0]), [7, 8, 9]
    found = search(ours, source, Options(beam=60, max_len_b=2), torch.tensor([[EOS, *words]]))[0]
    expected = [[word, *then] for word in words for then in ([], *([other] for other in words))]
    assert sorted(one.tokens for one in found) == sorted(expected)
