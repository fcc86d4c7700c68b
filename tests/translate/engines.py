"""Two engines of a Translator compared, text by text."""

import pytest

from resmlp_mt import Translator

TEXTS = ["the hen in there.", "A man.", "", "Is it the other?", "Well, no one sings here!", "No."]
OPTIONS = [{}, {"beam": 1}, {"beam": 5, "n_best": 3, "length_penalty": 0.6, "max_len_b": 4}]


def check_same_translations(engine: Translator, pytorch: Translator, options: dict) -> None:
    """The translations of PyTorch's modules and their scores, of all texts together and of each alone."""
    expected = pytorch.translate(TEXTS, **options)
    together, alone = engine.translate(TEXTS, **options), [engine.translate(text, **options) for text in TEXTS]
    for found in together, alone:
        for one, other in zip(found, expected, strict=True):
            pairs = [(one, other)] if "n_best" not in options else zip(one, other, strict=True)
            for first, second in pairs:
                assert first.tokens == second.tokens
                assert first.score == pytest.approx(second.score, abs=1e-4)


def check_same_alignments(engine: Translator, pytorch: Translator) -> None:
    both = [each.translate(TEXTS, alignment=True) for each in (engine, pytorch)]
    for one, other in zip(*both, strict=True):
        assert len(one.alignment) == len(other.alignment) == len(one.tokens)
        for row, expected in zip(one.alignment, other.alignment, strict=True):
            assert row == pytest.approx(expected, abs=1e-4)
