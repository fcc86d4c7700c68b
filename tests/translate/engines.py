"""Compare two engines of a Translator, text by text."""

import pytest
from translate.small_folder import TEXTS

# With layerscale 1, values grow with such random weights until rounding alone is 2e-4 of a score (seen in fp64).
GATED = {"token_mixing": "gated", "mixing_band": 2, "layerscale_init": 0.5}
OPTIONS = [{}, {"beam": 1}, {"beam": 5, "n_best": 3, "length_penalty": 0.6, "max_len_b": 4}]
OPTIONS += [{"prefix": "the", "glossary": {"man": ["in", "inn"], "other": "er"}, "avoid": ["sings"]}]


def assert_equal(found, expected, tolerance=1e-4):
    """Check that tokens are equal and scores near (scores of tokens by 10 x tolerance); each text has one or a list."""
    for pair in zip(found, expected, strict=True):
        one, other = (each if isinstance(each, list) else [each] for each in pair)
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.score for each in one] == pytest.approx([float(each.score) for each in other], abs=tolerance)
        for each, like in zip(one, other, strict=True):
            assert each.token_scores == pytest.approx(like.token_scores, abs=10 * tolerance)


def check_same_translations(engine, pytorch, options):
    """Check that an engine gives PyTorch's translations, scores and alignments, for texts together and one by one."""
    expected = pytorch.translate(TEXTS, **options)
    assert_equal(engine.translate(TEXTS, **options), expected)
    assert_equal([engine.translate(text, **options) for text in TEXTS], expected)
    both = [each.translate([*TEXTS, "The {hen} in there."], alignment=True) for each in (engine, pytorch)]
    for one, other in zip(*both, strict=True):
        assert len(one.alignment) == len(other.alignment) == len(one.tokens)
        assert (one.text, one.word_links) == (other.text, other.word_links)
        for row, expected in zip(one.alignment, other.alignment, strict=True):
            assert row == pytest.approx(expected, abs=1e-4)
