"""Settled characters and words, beside fairseq's own tokenizer."""

from types import SimpleNamespace

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from resmlp_mt.corpora.characters import Settler
from resmlp_mt.corpora.tokens import LineTokenizer, Words

SENTENCES = [
    (
        "en",
        "A man in a black-and-white T-shirt doesn't see the \"Welcome\" sign (it's 3.5 m wide, e.g. at McDonald's).",
    ),
    ("en", "Mr. Smith & Sons <b>sold</b> 1,000 [red] apples | pears for $5... didn't they?"),
    ("en", "The Joneses' dog, aged 10-12, ran off -- at 5 p.m."),
    ("de", "Ein rothaariger Mann im T-Shirt hält ein Schild, auf dem „Willkommen“ steht – um 15.30 Uhr."),
    ("de", "Dr. Müller kaufte z.B. 1.000 Äpfel für 3,50 €; er war's doch, oder?"),
    ("fr", "L'homme n'a-t-il pas vu aujourd'hui 5 % des « journaux » ?"),
]


def wrapper(lang: str, words: Words):
    """fairseq's `--tokenizer moses` with the options that the words ask for."""
    from fairseq.data.encoders.moses_tokenizer import MosesTokenizer

    options = words.fairseq_options
    return MosesTokenizer(
        SimpleNamespace(
            source_lang=lang,
            target_lang=lang,
            moses_no_dash_splits="--moses-no-dash-splits" in options,
            moses_no_escape="--moses-no-escape" in options,
        )
    )


@pytest.mark.parametrize("dash_splits", [False, True])
@pytest.mark.parametrize(("lang", "sentence"), SENTENCES)
def test_raw_text_becomes_the_words_of_fairseq(lang: str, sentence: str, dash_splits: bool) -> None:
    words = Words("moses", dash_splits=dash_splits, normalize=False)
    assert LineTokenizer(lang, words)(sentence) == wrapper(lang, words).encode(sentence)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=40))
def test_settled_text_becomes_the_words_of_fairseq(text: str) -> None:
    assert TOKENIZE(text) == WRAPPER.encode(SETTLERS[False](text))


SETTLERS = {punctuation: Settler("en", punctuation) for punctuation in (False, True)}
TOKENIZE = LineTokenizer("en", Words("moses", normalize=False))
WRAPPER = wrapper("en", Words("moses", normalize=False))


@pytest.mark.parametrize("punctuation", [False, True])
@settings(max_examples=50, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_a_settled_line_is_one_line_of_words(text: str, punctuation: bool) -> None:
    line = SETTLERS[punctuation](text)
    assert line.splitlines() in ([], [line])
    assert line == " ".join(line.split())
    assert not regex.search(r"\p{C}", line)


def test_settling() -> None:
    settle = Settler("en")
    assert settle("\ufeffa\rb\tc\u2028d \x00 e\u00adf\u00a0g") == "a b c d ef g"
    assert settle("“It’s” – he said…") == '"It\'s" - he said...'
    assert Settler("en", punctuation=False)("“It’s” – he said…") == "“It’s” – he said…"


def test_no_escaping_and_no_dash_splits_by_default() -> None:
    tokenize = LineTokenizer("en", Words())
    assert tokenize("It's a well-known <tag> & more.") == "It 's a well-known < tag > & more ."
    assert LineTokenizer("en", Words(dash_splits=True))("well-known") == "well @-@ known"
    assert LineTokenizer("en", Words("none"))("It's  well-known.") == "It's well-known."
