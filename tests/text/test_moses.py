"""The quick normalizer and tokenizer, compared with those of unmodified sacremoses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from resmlp_mt.text.moses import PunctuationNormalizer, Tokenizer, spelled_out
from resmlp_mt.text.words import CharacterCleaner

LANGS = ["en", "de", "fr", "it", "cs", "fi"]
OURS = {lang: (PunctuationNormalizer(lang), Tokenizer(lang)) for lang in LANGS}
THEIRS = {lang: (MosesPunctNormalizer(lang), MosesTokenizer(lang)) for lang in LANGS}

# What the rules look for, and what may be next to it.
WORDS = """.. ... '' ´´ nº ºC cm &amp; DOTMULTI DOTDOTMULTI @-@ Mr. e.g. U.S. bzw. No. Nr. 1. 1,000
    L' aujourd'hui it's 1990's x-y http://a.b/c-d '. .'"""
PIECES = (
    *"aZé5٣²一あ,.;:!?%()[]{}<>|&@#*+=/\\-–—_'`´‘’‚\"“”„«»…$€°\t\r\n\v\f\x00\x1c\x1f\x85\xa0\xad\u2028\u3000\ufeff़",
    "  ",
    *WORDS.split(),
)
TEXT = st.lists(st.sampled_from(PIECES) | st.just(" ") | st.characters(), max_size=25).map("".join)


@settings(max_examples=500)
@given(TEXT, st.sampled_from(LANGS), st.booleans())
def test_same_as_sacremoses(text: str, lang: str, dash_splits: bool) -> None:
    (normalizer, tokenizer), (their_normalizer, their_tokenizer) = OURS[lang], THEIRS[lang]
    options = {"aggressive_dash_splits": dash_splits, "return_str": True, "escape": False}
    assert tokenizer.tokenize(text, **options) == their_tokenizer.tokenize(text, **options)
    normalized = normalizer.normalize(text)
    assert normalized == their_normalizer.normalize(text)
    assert tokenizer.tokenize(normalized, **options) == their_tokenizer.tokenize(normalized, **options)


@settings(max_examples=300)
@given(TEXT, st.booleans())
def test_a_line_of_clean_characters_and_punctuation(text: str, punctuation: bool) -> None:
    # The slow way: every character is removed or made a space, one by one.
    def fate(char: str) -> str:
        if char in "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029":
            return " "
        return "_" if char == "\u2581" else MosesPunctNormalizer("en").remove_control_chars(char)

    clean = "".join(map(fate, text))
    expected = THEIRS["en"][0].normalize(f"{clean}\n") if punctuation else clean
    assert CharacterCleaner("en", punctuation)(text) == " ".join(expected.split())


@pytest.mark.parametrize("lang", LANGS)
def test_every_rule_but_one_has_a_string_whose_absence_skips_it(lang: str) -> None:
    assert {rule for rule, _ in THEIRS[lang][0].substitutions if not spelled_out(rule)} <= {r"\r"}
