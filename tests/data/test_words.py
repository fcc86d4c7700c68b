"""Cleaned characters, and lines that cannot become words; tests/text compares the words with sacremoses."""

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.chunks import Chunk, ChunkTokenizer
from resmlp_mt.text.words import CharacterCleaner, Words

SETTLERS = {punctuation: CharacterCleaner("en", punctuation) for punctuation in (False, True)}


@pytest.mark.parametrize("punctuation", [False, True])
@settings(max_examples=50, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_a_settled_line_is_one_line_of_words(text: str, punctuation: bool) -> None:
    line = SETTLERS[punctuation](text)
    assert line.splitlines() in ([], [line])
    assert line == " ".join(line.split())
    assert not regex.search(r"\p{C}", line)
    for char in "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\t":
        assert SETTLERS[punctuation](f"a{char}b") == "a b"
    for char in "\x00\ufeff\u00ad\u200b\u200e\x07\x7f\x1f\x9f\ue000\U000f0000\U0010ffff\u0378":
        assert SETTLERS[punctuation](f"a{char}b") == "ab"


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


def test_pairs_that_are_not_utf8_are_dropped_together() -> None:
    pairs = [(b"one", b"eins"), (b"tw\xff", b"zwei"), (b"three", b"\xed\xa0\x80"), (b"", "vier\u2028\r".encode())]
    done = ChunkTokenizer(("en", "de"), Words())(Chunk(1, pairs))
    assert done.read == 4
    assert done.texts == (b"one\n\n", b"eins\nvier\n")
    assert done.dropped == {"not UTF-8": 2}


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((b"\xff", b"x"), "a:8: not UTF-8"),
        ((b"x", b"\xc3"), "b:8: not UTF-8"),
        ((b"x", b""), "b:8: no words"),
        (("\ufeff\u2028".encode(), b"x"), "a:8: no words"),
        ((b"x", b"y" * 10_001), "b:8: a word of 10,001 letters: .*: validation and test lines are never dropped"),
    ],
)
def test_lines_that_evaluation_needs(pair: tuple[bytes, bytes], message: str) -> None:
    tokenize = ChunkTokenizer(("en", "de"), Words(), names=("a", "b"))
    with pytest.raises(UserError, match=message):
        tokenize(Chunk(7, [(b"fine", b"fein " * 5000 + b"y" * 10_000), pair]))
