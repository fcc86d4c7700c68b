"""Addresses and placeholders: how they are found, where they are put, and that each comes out unchanged and once."""

import re

import pytest
from translate.small_folder import TEXTS

from resmlp_mt import Translator
from resmlp_mt.translate.entities import ENTITY, placed, spaced

WRITTEN = """https://a.org/b_(c)?d=1&e=%20,f www.a.org j.doe+x@mail.example.com {name} {0:.2f} {}
${HOME} $HOME_2 %s %(name)s %1$s %.2f www.a.org{0}"""
ENTITIES = [*WRITTEN.split(), "{{ x }}"]


@pytest.mark.parametrize("entity", ENTITIES)
@pytest.mark.parametrize("around", ["{}", "See {}.", "({}), or", '"{}"!', "“{}”…", "„{}。谢谢"])
def test_what_is_an_entity(entity, around):
    assert [found[0] for found in ENTITY.finditer(around.replace("{}", entity))] == [entity]


@pytest.mark.parametrize("text", ["100% sure", "5%", "a @ b", "$100 or $A", "{two words}", "w@w", "http://", "{"])
def test_what_is_no_entity(text):
    assert not ENTITY.search(text)


def test_a_long_text_takes_time_by_its_length():
    """In quadratic time it would take longer than a test may."""
    for text in "a" * 400_000, "www." + "(" * 400_000, "{{" * 400_000, "a.b@" * 100_000, "%" + "0" * 400_000:
        ENTITY.findall(text)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_they_come_out_exactly_and_once(folder, precision):
    translator = Translator(folder, precision=precision)
    plain = translator.translate(TEXTS)
    texts = [f"{ENTITIES[n]} {it.replace(' ', f' {ENTITIES[n + 1]} ', 1)}{ENTITIES[-1]}" for n, it in enumerate(TEXTS)]
    for number, (text, found) in enumerate(zip(texts, translator.translate(texts, alignment=True), strict=True)):
        assert sorted(ENTITY.findall(found.text)) == sorted(ENTITY.findall(text))
        assert (found.tokens, found.score) == (plain[number].tokens, pytest.approx(plain[number].score, abs=1e-4))
        assert [word for word, _ in found.words] == found.text.split()
        assert all(source < len(text.split()) and target < len(found.words) for source, target in found.word_links)
    assert translator.translate(" https://a.org  {x}").text == "https://a.org {x}"
    begun = translator.translate("{x} the hen", prefix="in the")
    assert begun.text.startswith("in the ") and begun.text.count("{x}") == 1
    assert translator.translate("www.a.org", n_best=2)[1].words == [("www.a.org", 0.0)]


def test_without_cross_attention_they_come_at_the_same_relative_place():
    assert placed(["a", "b", "c", "d"], ["A", "B"], "A \ue000B", None, "bpe") == ["a", "b", "\ue000", "c", "d"]


@pytest.mark.parametrize(
    ("source", "target", "subwords", "expected"),
    [
        ("A \ue000 B C.", "b@@ b a c .", "bpe", "\ue000 b@@ b a c ."),  # B has two pieces, A has one
        ("A B \ue000.", "b@@ b a c .", "bpe", "b@@ b a c \ue000 ."),
        ("A B C. \ue000 \ue001", "a b@@ b c .", "bpe", "a b@@ b c . \ue000"),
        ("\ue000 A B \ue001 C.", "▁a ▁b b ▁c .", "sentencepiece", "▁\ue000 ▁a ▁b b ▁\ue001 ▁c ."),
        ("A \ue000-B C.", "▁a -b ▁c .", "sentencepiece", "▁a ▁\ue000 -b ▁c ."),
        ("A \ue000 B.", "▁京a 京b .", "sentencepiece", "▁京a ▁\ue000 ▁京b ."),  # words without spaces
        ("A \ue000 B.", "▁कa ीb .", "sentencepiece", "▁कa ीb ▁\ue000 ."),  # a vowel sign is part of a word
    ],
)
def test_where_they_come(source, target, subwords, expected):
    """Each piece attends to the capital letter of its last one."""
    target, pieces = target.split(), re.findall("[A-Z.]", source)
    letters = [piece.strip("@▁")[-1].upper() for piece in target]
    alignment = [[float(piece == letter) for piece in pieces] + [0.0] for letter in letters]
    assert placed(target, pieces, source, alignment, subwords) == expected.split()


def test_spaces_are_those_of_the_source_beside_the_same_character():
    found = spaced("a ( \ue000 ) b \ue001, c \ue002 d", 'a (\ue000) b "\ue001" c \ue002-\ue003')
    assert found == "a (\ue000) b \ue001, c \ue002 d"
    assert spaced("a \ue000 .", "word\ue000.") == spaced("a \ue000 .", "कमी\ue000.") == "a\ue000."
    assert spaced("I live in \ue000.", "我住在\ue000。") == "I live in \ue000."
