"""The model in pure PyTorch has the scores of fairseq's, for every preset and option, all at once and in steps."""

from copy import deepcopy

import pytest
import torch
from builders import KINDS, VARIANTS, batch, build, pairs, shifted, without_padding

from resmlp_mt.export.hub_folder import fairseq_scores
from resmlp_mt.nn.encoder_decoder import fold_

EXACT = {"rtol": 1e-5, "atol": 1e-5}  # all is float64 except the softmax of cross-attention, in float32
MODELS = {**VARIANTS, **KINDS, "layer drop": {"encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5}}


@pytest.fixture(scope="module", params=MODELS.values(), ids=[name.replace(" ", "-") for name in MODELS])
def both(request):
    model = build(**request.param).eval()
    return model, model.without_fairseq()


@pytest.mark.parametrize("left_pad", [False, True])
@torch.no_grad()
def test_scores_of_a_batch_padded_on_either_side(both, left_pad):
    model, ours = both
    sources, targets = pairs((3, 5), (7, 2), (1, 9))
    expected = fairseq_scores(model, batch(sources, left_pad), batch(shifted(targets), left_pad))
    folded = deepcopy(ours)
    fold_(folded)
    for each in ours, folded:
        found = each(batch(sources, left_pad, extra=3), batch(shifted(targets), left_pad, extra=2))
        rows = [without_padding(scores, targets, left_pad) for scores in (found, expected)]
        torch.testing.assert_close(*rows, **EXACT)


@torch.no_grad()
def test_step_by_step_with_beams_that_change_places_and_a_sentence_that_leaves(both):
    """Steps of one to three positions are compared with teacher forcing of the same tokens."""
    _, ours = both
    sources, targets = pairs((3, 8), (7, 8), (2, 8))
    previous = batch(shifted(targets)).repeat_interleave(2, 0)  # two beams a sentence
    previous[1::2, 1:] = previous[1::2, 1:].flip(1)  # the second one has other tokens
    encoded, padding = ours.encoder(batch(sources))
    of_beams = encoded.repeat_interleave(2, 1), padding.repeat_interleave(2, 0)
    last = (len(ours.decoder.layers) - 1,)
    expected = ours.decoder(previous, *of_beams)
    _, (*_, weights) = ours.decoder.decode(previous, *of_beams, last)
    state, at, rows = ours.decoder.start(encoded, padding), 0, torch.arange(6)
    for width in 1, 2, 1, 3, 1:
        scores, (*_, attention) = ours.decoder.step(previous[rows, at : at + width], state, last)
        torch.testing.assert_close(scores, expected[rows, at : at + width], **EXACT)
        if weights is not None:
            torch.testing.assert_close(attention, weights[:, rows, at : at + width], **EXACT)
        at += width
        swapped = torch.tensor([1, 0, 3, 2, 5, 4])[: len(rows)]
        if at == 3:  # the first sentence leaves
            swapped = swapped[2:]
            state.reorder(swapped, torch.tensor([1, 2]))
        else:
            state.reorder(swapped)
        rows = rows[swapped]
    assert at == 8


def test_shared_parameters_are_shared():
    ours = build(share_all_embeddings=True).without_fairseq()
    shared = ours.encoder.embed_tokens.weight
    assert ours.decoder.embed_tokens.weight is shared and ours.decoder.output_projection.weight is shared
