"""Spaces and punctuation, and lines that cannot become words; tests/text compares with sacremoses."""

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.chunks import Chunk, ChunkTokenizer
from resmlp_mt.text.words import CharacterCleaner, Words


@pytest.mark.parametrize(
    ("lang", "raw", "settled"),
    [
        ("de", "5\u00a0%, 1\u00a0000", "5%, 1,000"),
        ("de", 'Er sagte: "Ja."', 'Er sagte: "Ja".'),  # as Moses' script does, which keeps the line end
        ("en", 'He said: "Yes".', 'He said: "Yes."'),
    ],
)
def test_spaces_and_punctuation(lang: str, raw: str, settled: str) -> None:
    assert CharacterCleaner(lang)(raw) == settled


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((b"\xff", b"x"), "a:8: not UTF-8"),
        ((b"x", b""), "b:8: no words"),
        (("\ufeff\u2028".encode(), b"x"), "a:8: no words"),
        ((b"x", b"y" * 10_001), "b:8: a word of 10,001 letters: .*: validation and test lines are never dropped"),
    ],
)
def test_lines_that_evaluation_needs(pair: tuple[bytes, bytes], message: str) -> None:
    tokenize = ChunkTokenizer(("en", "de"), Words(), names=("a", "b"))
    with pytest.raises(UserError, match=message):
        tokenize(Chunk(7, [(b"fine", b"fein " * 5000 + b"y" * 10_000), pair]))
