"""From subwords to words, and numbers in both texts, by hand-made examples."""

import pytest

from resmlp_mt.translate.numbers import check_numbers
from resmlp_mt.translate.words import links, word_alignment, word_numbers, word_scores


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("The hens (two).", "The h@@ ens ( two ) .", [0, 1, 1, 2, 2, 2, 2]),
        ("  Said\t„yes“ — twice ", 'S@@ aid " yes " - twice', [0, 0, 1, 1, 1, 2, 3]),  # with plain quotes
        ("A well – known B-side of", "A well - known B-side of", [0, 1, 2, 3, 4, 5]),
        ("well-known l'homme", "well @-@ known l' homme", [0, 0, 0, 1, 1]),
        ("a \U0001f642\u200d\U0001f642 bbbbbbbbbbbbbbbbbbbbb c", "a ccccccccccccccccccccccc c", [0, 1, 3]),
        ("The hens.", "▁The ▁h ens .", [0, 1, 1, 1]),
        ("cafe\u0301 (bar) ist", "▁café ▁(bar) ▁ist", [0, 1, 2]),
        ("one", "one end .", [0, 0, 0]),
    ],
)
def test_words_of_subwords(text, pieces, expected):
    assert word_numbers(pieces.split(), text) == expected


def test_links_of_subwords_and_of_words():
    """A hand-made matrix: ``Ein Huhn singt.`` of ``A hen sings.``, whose ``.`` attends to the end."""
    source, target = ["A", "h@@", "en", "sings", "."], ["Ein", "H@@", "uhn", "singt", "."]
    matrix = [
        [0.8, 0.1, 0.0, 0.0, 0.1, 0.0],
        [0.4, 0.3, 0.3, 0.0, 0.0, 0.0],
        [0.3, 0.3, 0.3, 0.1, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.9, 0.1, 0.0],
        [0.0, 0.0, 0.0, 0.1, 0.1, 0.8],
    ]
    assert links(matrix) == [(0, 0), (0, 1), (0, 2), (3, 3)]
    texts = "A hen sings.", "Ein Huhn singt."
    numbers = word_numbers(source, texts[0]), word_numbers(target, texts[1])
    words = word_alignment(matrix, *numbers, (texts[0].split(), texts[1].split()))
    assert words == [pytest.approx(row) for row in [[0.8, 0.1, 0.1, 0.0], [0.35, 0.6, 0.05, 0.0], [0.0, 0.0, 0.6, 0.4]]]
    assert links(words) == [(0, 0), (1, 1), (2, 2)]
    for rows, target in ([], []), ([[1.0, 0.0]], [0]):
        assert links([]) == word_alignment(rows, [0], target, (["A"], [])) == []
    assert word_scores("Ein Huhn", [0, 1, 1], [-1.0, -0.5, -0.25]) == [("Ein", -1.0), ("Huhn", -0.75)]


@pytest.mark.parametrize(
    ("source", "translation", "missing", "new"),
    [
        ("1,000 men on May 3 at 10:30", "Am 3. Mai um 10.30 Uhr 1.000 Leute", [], []),
        ("1,234.5 or 1234.5 or 1 234 567", "1.234,5 oder 1.234,5 oder 1.234.567", [], []),
        ("on 3/4/2020, 2.50 each", "am 3.4.2020, je 2,50", [], []),
        ("2 of 2 for 1.5", "2 für 15", ["2", "1.5"], ["15"]),
        ("1,000", "1", ["1,000"], ["1"]),
        ("two men", "2 Männer", [], ["2"]),
    ],
)
def test_numbers_that_are_missing_or_new(source, translation, missing, new):
    assert check_numbers(source, translation) == (missing, new)
    assert check_numbers(translation, source) == (new, missing)
