"""Tags go with their words, and the result is always well-formed, as lxml's XML parser judges."""

import dataclasses
import random
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from translate.documents import reversed_words, same, translation
from translate.small_folder import TEXTS

from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError
from resmlp_mt.text.tokenizer import END, UNKNOWN
from resmlp_mt.translate.alignment import WORD
from resmlp_mt.translate.documents import document_of
from resmlp_mt.translate.search import search

ADDRESS = "https://www.example.org/far/longer"


def put(source, *translations):
    document = document_of(source, "html")
    return document.joined(translations or [reversed_words(sentence) for sentence in document.sentences])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("A <b>red</b> dog", "dog <b>red</b> A"),
        ("A <b>red <i>big</i></b> dog &lt; x", "x &lt; dog <b><i>big</i> red</b> A"),
        ("<p><b>A red dog</b></p>", "<p><b>dog red A</b></p>"),
        ("A <a href='?a&amp;b' X=\"1\">red dog</a>, cat", "cat , <a href='?a&amp;b' X=\"1\">dog red</a> A"),
        ("<a href='x'>red</a><a href='y'>dog</a>", "<a href='y'>dog</a> <a href='x'>red</a>"),
        ("Call <code>f&lt;x&gt;</code> now", "now <code>f&lt;x&gt;</code> Call"),
        ("A <span translate='no'>Big  Ben</span> dog", "dog <span translate='no'>Big  Ben</span> A"),
        ("A <b>red <i>big</b> dog x", "x dog <b>big <i> red</b> A"),  # the source is not well-formed either
        ("A dog</b> x", "x </b> dog A"),
        ("<p translate=no>A <i>x</i> y<li>A dog", "<p translate=no>A <i>x</i> y<li>dog A"),
        ("<i><b translate=no>x y</i> x</b> A dog", "<i><b translate=no>x y</i> x</b> dog A"),
        ("<b><code>x y</b></code> A dog", "<b><code>x y</b></code> dog A"),
        ("A dog<script>A dog", "dog A<script>A dog"),
        ("A <a><picture><img></picture></a> <i> </i> dog", "dog <i> </i> <a><picture><img></picture></a> A"),
        ("<a href='x'><h1>A red dog</h1><b>runs</b></a>", "<a href='x'><h1>dog red A</h1><b>runs</b></a>"),
        ("<i>A dog. It</i> runs fast", "<i>. dog A</i> fast runs <i>It</i>"),
        ("<b>छोटी</b> कमी Mu\u0308ller", "Mu\u0308ller कमी <b>छोटी</b>"),
        ("x <i>y<p>A dog</p></i>", "<i>y</i> x<p><i>dog A</i></p>"),
        ("<p>&nbspOne &# <b>two</b></p>", "<p>&nbsp<b>two</b> # &amp; One</p>"),
    ],
)  # fmt: skip
def test_tags_go_with_their_words(source, expected):
    assert put(source) == expected


def test_line_ends_stand_at_the_same_share_of_the_text():
    source = "one <i>two</i><br/>\n three <br>four"
    assert put(source, translation("one two three four")) == "one <i>two</i><br/>\n three<br>four"
    assert put(source, translation("one two three four", [0])) == "<i>one</i><br/>\n <br>"
    several = document_of("one<br>&nbsp;<br/>two<br>\n <BR>three<br>x<br> &bull; y<br>-z", "html")
    assert several.sentences == ["one", "two", "three x", "y -z"]
    steps = "<p>Do this:<br>1. Open it<br>b) Go in<br>now</p>Vom<br>3. Oktober. By<br>J.<wbr>Smith.<td>1<wbr>0</td>"
    found = document_of(steps, "html", "de")
    assert found.sentences == ["Do this:", "Open it", "b) Go in now", "Vom 3. Oktober.", "By J.Smith."]
    assert "".join(part for part in found.parts if isinstance(part, str)).endswith("<td>1<wbr>0</td>")
    assert document_of("A dog<a>[1]</a><a>[2]</a><a></a>.", "html").sentences == ["A dog[1][2]{0}."]
    assert document_of("</a><a>Two</a> men", "html").sentences == ["{0}Two men"]
    assert document_of("Go!<b>Buy.</b> One.<img>Two\n> x.", "html").sentences == ["Go!", "Buy.", "One.", "{0}Two > x."]
    assert put("one\ntwo", translation("one two", [0])) == "one"  # a subtitle's empty line would end it


def test_words_apart_and_words_that_are_lost():
    source = "They <b>take off</b> their hats"
    links = {"Sie": 0, "nehmen": 1, "ihre": 3, "Hüte": 4, "ab": 2}
    rows = [[float(number == link) for number in range(6)] for link in links.values()]
    plain = translation("They take off their hats")
    found = dataclasses.replace(plain, text=" ".join(links), tokens=list(links), alignment=rows)
    assert put(source, found) == "Sie <b>nehmen</b> ihre Hüte ab"
    behind = translation("They take off their hats", [3, 4, 1, 2, 0])
    behind = dataclasses.replace(behind, text=f"{ADDRESS} {behind.text}")
    assert put(f"{ADDRESS} {source}", behind) == f"{ADDRESS} their hats <b>take off</b> They"
    lost = dataclasses.replace(found, text="Sie", tokens=["Sie"], alignment=rows[:1])
    assert put(source, lost) in ("<b>Sie</b>", "Sie<b></b>")
    assert put(source, dataclasses.replace(found, text="", tokens=[], alignment=[])) == "<b></b>"
    assert put(source, dataclasses.replace(found, alignment=None)) == "Sie <b>nehmen ihre</b> Hüte ab"


@st.composite
def markup(draw, depth=3):
    """Draw HTML that is also XML."""
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.integers(0, 5 if depth else 3))
        if kind < 3:
            parts.append(draw(st.sampled_from(["one two ", "Three. ", "&amp;", " four\n  five", "6", "seven! Eight"])))
        elif kind == 3:
            inside = draw(st.sampled_from(["<br/>", "<!-- x -->", "<code>y z</code>", "<img src='a'/>", "<i></i>"]))
            parts.append(f" {inside} ")
        else:
            name = draw(st.sampled_from(["b", "a", "span", "p", "div", "li"]))
            parts.append(f" <{name} x='{draw(st.integers(0, 9))}'>{draw(markup(depth - 1))}</{name}> ")
    return "".join(parts)


def letters_within(element, tags=frozenset()):
    """Yield each letter with the tags around it."""
    inside = tags | {(element.tag, *element.attrib.values())}
    if element.tag is not etree.Comment:
        yield from ((letter, inside) for letter in "".join((element.text or "").split()))
    for child in element:
        yield from letters_within(child, inside)
    if tags:
        yield from ((letter, tags) for letter in "".join((element.tail or "").split()))


@settings(max_examples=300, deadline=None)
@given(markup(), st.integers(0, 9), st.booleans(), st.booleans())
def test_always_well_formed(source, seed, without, fragment):
    source, whole = (source, "<body>{}</body>".format) if fragment else (f"<body>{source}</body>", str)
    document, generator = document_of(source, "html"), random.Random(seed)
    found = []
    for sentence in document.sentences:
        words = WORD.findall(sentence)
        order = [number for number, word in enumerate(words) if word[0] == "{" or generator.random() < 0.7]
        each = translation(sentence, generator.sample(order, len(order)))
        found.append(dataclasses.replace(each, alignment=None) if without else each)
    before, after = (etree.fromstring(whole(text)) for text in (source, document.joined(found)))
    tags = [{(each.tag, *each.attrib.values()) for each in tree.iter(etree.Element)} for tree in (before, after)]
    assert tags[0] == tags[1]
    # a tag that goes on over blocks, or over two <br>, is not put around text after them that has no letter
    two = "self::br[following-sibling::node()[not(self::text()) or normalize-space()][1][self::br]]"
    if not before.xpath(f"//*[self::b or self::a or self::span]//*[self::p or self::div or self::li or {two}]"):
        assert list(letters_within(etree.fromstring(whole(same(source))))) == list(letters_within(before))
    for name in "br", "img", "code":
        assert len(before.findall(f".//{name}")) == len(after.findall(f".//{name}"))


def test_broken_html_loses_nothing():
    for source in "a < b & c <", "A dog <b", "<p A dog", "A &unknown; <![CDATA[x]]> <![b c> dog </", "<!-- open dog":
        assert [word for word in WORD.findall(source) if word.isalpha() and word not in same(source)] == []


def test_deep_html():
    def deep(tags):
        return "".join(f" <b>{number} x" for number in range(tags)) + tags * "</b>"

    assert same(f"y{deep(100)}") == f"y{deep(100)}"
    with pytest.raises(UserError, match="more than 100 tags within each other, at <b>"):
        document_of(f"y{deep(101)}", "html")
    assert document_of("<a " * 50_000, "html").sentences  # Python's parser alone takes minutes


def test_omission_is_how_much_likelier_a_token_is_with_each_of_the_source_s(folder, monkeypatch):
    translator, watched = Translator(folder), Mock(wraps=search)
    monkeypatch.setattr("resmlp_mt.translate.translator.search", watched)
    (found,) = translator.translate(TEXTS[:1], alignment=True, alignment_by="omission", batch_tokens=40)
    assert found.text == translator.translate(TEXTS[0]).text
    assert [call.args[2].alignment for call in watched.call_args_list] == [False, False]  # the fast decoder is used
    source = translator.tokenizer.encode(TEXTS[0])
    target = translator.tokenizer.numbers(found.tokens, target=True)

    def chances(numbers):
        with torch.no_grad():
            scores = translator.model(torch.tensor([numbers]), torch.tensor([[END, *target[:-1]]]))
        return scores.softmax(-1)[0, range(len(target)), target]

    whole = chances(source)
    sums = []
    for number in range(len(source) - 1):
        gains = (whole / chances([*source[:number], UNKNOWN, *source[number + 1 :]]) - 1).clamp(min=0)[:-1] + 1e-3
        sums.append(gains / torch.tensor(found.alignment)[:, number])
    for each in sums:
        torch.testing.assert_close(each, sums[0], rtol=1e-3, atol=1e-5)
