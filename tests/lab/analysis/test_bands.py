"""What bands read in a text, against the plain equations."""

import oracle
import pytest
import torch
from builders import build, dictionary, pairs

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.analysis.matrices import bands_of, read_bands

BANDED = {"token_mixing": "gated", "mixing_heads": 4, "mixing_band": 2}
TEXT = [tuple(map(torch.tensor, pair)) for pair in zip(*pairs((5, 4), (3, 6), (7, 2)), strict=True)]
SYMBOLS = dictionary(), dictionary()


def predicted(model, side, tokens):
    """Weights of the first layer, T x H x J."""
    p = {name: value.detach() for name, value in oracle.parameters_of(model).items()}
    name = f"{side}.layers.0.mixing"
    x = oracle.embed(p, side, tokens, vars(model.cfg))
    x = [oracle.linear(p, f"{name}.mixing.band.predict", oracle.norm(p, f"{name}.pre_affine", each)) for each in x]
    return torch.stack(x).view(len(tokens), 4, -1)


def test_means_and_spreads_are_over_all_positions_of_the_text():
    model = build(**BANDED).eval()
    found = read_bands(model, TEXT, SYMBOLS, sentence=2)
    assert [each.name for each in found] == ["encoder 1", "encoder 2", "decoder 1", "decoder 2"]
    encoder, decoder = found[0], found[2]
    assert (encoder.offsets, decoder.offsets) == ([-2, -1, 0, 1, 2], [-2, -1, 0])
    read = {
        "encoder": [source.tolist() for source, _ in TEXT],
        "decoder": [[2, *target[:-1].tolist()] for _, target in TEXT],
    }
    for each in encoder, decoder:
        weights = [predicted(model, each.side, tokens) for tokens in read[each.side]]
        torch.testing.assert_close(each.sentence, weights[1])
        torch.testing.assert_close(each.mean, torch.cat(weights).mean(0))
        torch.testing.assert_close(each.spread, torch.cat(weights).std(0))
        assert each.tokens == [SYMBOLS[0][symbol] for symbol in read[each.side][1]]
    assert not any(band.predict._forward_hooks for band in bands_of(model).values())


def test_a_sentence_that_is_not_there_and_a_model_without_a_band():
    model = build(token_mixing="gated").eval()
    assert bands_of(model) == {} and read_bands(model, TEXT, SYMBOLS) == []
    for number in 0, 4:
        with pytest.raises(UserError, match=f"--sentence {number}: the text has 3 sentences: give one of 1 to 3"):
            read_bands(model, TEXT, SYMBOLS, number)
