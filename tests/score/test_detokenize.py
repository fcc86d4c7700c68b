import re

import pytest
from score.generated import REFERENCE, moses_tokens, subwords

from resmlp_mt.common.errors import UserError
from resmlp_mt.score.detokenize import Moses, check_spaces, check_tokenization, undo_subwords


def test_subwords_are_undone():
    assert undo_subwords([subwords(line) for line in REFERENCE], "subword_nmt", "x") == REFERENCE
    assert undo_subwords(REFERENCE, "subword_nmt", "x") == REFERENCE
    lines = ["ab@@", "▁ ist ein Zeichen", "Ja@@ wohl ."]  # stopped inside a word; a mark of the other kind in text
    assert undo_subwords(lines, "subword_nmt", "x") == ["ab", "▁ ist ein Zeichen", "Jawohl ."]
    assert undo_subwords(["▁Ein ▁Ha us .", "▁z wei", ""], "sentencepiece", "x") == ["Ein Haus.", "zwei", ""]


@pytest.mark.parametrize(
    ("lines", "scheme", "message"),
    [
        (["▁Ein ▁Ha us"], "subword_nmt", "give --subwords sentencepiece"),
        (["Ein Haus"], "sentencepiece", "give --subwords none"),
        (["Ein", "Ha@@ us"], "none", r"gen.out: translation 2 of 2 has subwords \(@@\)"),
    ],
)
def test_subwords_of_another_kind_are_refused(lines, scheme, message):
    with pytest.raises(UserError, match=message):
        undo_subwords(lines, scheme, "gen.out")


def test_words_that_run_together_are_refused():
    joined = [line.replace(" ", "") for line in REFERENCE]
    with pytest.raises(UserError, match=r"x: subwords joined as another kind's \('DerOst-West.*generate again"):
        check_spaces(joined, REFERENCE, "x")
    check_spaces(REFERENCE, joined, "x")
    check_spaces([line.split()[0] for line in REFERENCE], REFERENCE, "x")  # a model that stops early
    check_spaces([*joined[:3], *REFERENCE[3:]], REFERENCE, "x")


@pytest.mark.parametrize("escape", [True, False])
@pytest.mark.parametrize("aggressive", [True, False])
def test_moses_tokens_of_either_kind_become_one_kind_and_the_text_again(escape, aggressive):
    moses = Moses("de")
    tokens = moses_tokens(REFERENCE, escape=escape, aggressive_dash_splits=aggressive)
    plain = moses_tokens(REFERENCE, escape=False)
    assert [moses.plain_tokens(line) for line in tokens] == plain == [moses.tokens(line) for line in REFERENCE]
    without_apostrophe = [line for line in REFERENCE if "'" not in line]  # Moses loses its place in German
    assert [moses.text(line) for line in moses_tokens(without_apostrophe)] == without_apostrophe
    assert Moses("fr").text("L' homme a 5 % .") == "L'homme a 5 %."
    assert Moses("fr").text("L' homme a 5 % , 1 000 € ( 5 $ par an ) .") == "L'homme a 5 %, 1 000 € (5 $ par an)."
    assert Moses("en").text("In 2008 $ five million") == "In 2008 $five million"
    assert moses.tokens("„Ja“") != Moses("de", normalize=True).tokens("„Ja“") == '" Ja "'


def test_tokens_and_running_text_are_told_apart():
    text = [line for line in REFERENCE if re.search(r"\w\.$", line)]
    for lines, tokenized, advice in (text, False, "--tokenizer none"), (moses_tokens(text), True, "--tokenizer moses"):
        check_tokenization(lines, tokenized, "x")
        with pytest.raises(UserError, match=advice):
            check_tokenization(lines, not tokenized, "x")
    check_tokenization(["Wie bitte ?", "Non !", "Où ?"], False, "x")  # French running text
