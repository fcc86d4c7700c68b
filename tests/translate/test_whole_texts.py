"""Whole texts: all except the sentences stays the same, byte for byte, in every format, by Python and the command."""

import html
import re
import sys
from unittest.mock import Mock

import pytest
from translate.documents import PAGES, reversed_words, same, translation
from translate.small_folder import LONG

from resmlp_mt.common.errors import UserError
from resmlp_mt.translate.alignment import omission
from resmlp_mt.translate.documents import document_of, translate_text, translations_of
from resmlp_mt.translate.options import Options


@pytest.mark.parametrize("kind", PAGES)
def test_what_is_translated_by_itself_comes_back(kind):
    assert same(PAGES[kind], kind) == PAGES[kind]
    crlf = PAGES[kind].replace("\r\n", "\n").replace("\n", "\r\n")
    assert same(crlf, kind) == crlf


SENTENCES = {
    "text": """\
A man in a hat sleeps.
A dog runs!
Two women, in the park.
A girl is reading a book about the old castle on the hill.
Her brother, Mr. Smith, would like to swim in the lake, e.g. tomorrow.
It rains.
Milk
eggs
""",
    "html": """\
A man
The old castle
A man in an orange hat reads a good book.
He likes it & sleeps.
Call {5} twice1, please.
{6}Next to it.
Two men
One sentence.
Another one.
{7}A third {8} one.
""",
    "markdown": """\
A man in a hat
A man in an orange hat is sitting on the bench.
Two dogs run on the grass with {0} and *stars* & more.
A girl in a red dress stands in front of a wall.
A boy {0} sleeps.
{0} A woman is smiling{1}.
The dog runs, see {2} too.
Two men play football outside {0}{1}.
A dog
A cat
A man.
It | runs.
A boy
A snake_case_name and one *open mark.
{0} A note.
""",
    "srt": """\
A man in an orange hat is sitting on the bench.
A dog runs.
Two men play & win.
""",
}


@pytest.mark.parametrize("kind", PAGES)
def test_sentences(kind):
    assert document_of(PAGES[kind], kind).sentences == SENTENCES[kind].splitlines()


def test_other_sentences():
    assert document_of(" \n\n \t\n").sentences == document_of("").sentences == []
    assert document_of("---\na: b\n---\n", "markdown").joined([]) == "---\na: b\n---\n"
    assert document_of("---\n---\nA man.\n\n---\n", "markdown").sentences == ["A man."]
    whole = (
        r"Is it www.a.org?ID=1&l=D!E or https://x.org/a.php?ID=1, C:\A.B or ../../C/D?|See http://y.org.|Use ASP.NET."
        r"|It is 50 km/h.[1]|Then ..\..\C.txt, A.B or https://x.jp/a?検索=東京 or https://x.org/?[1]=1&b=2 stop."
    )
    assert document_of(whole.replace("|", " ")).sentences == whole.split("|")
    points = [".NET or .NET and {a,b}.{c,d} with f(x).Then stop.", "No."]
    assert document_of(" ".join(points)).sentences == points
    assert document_of("– Ja  \n– Nein", "markdown").sentences == ["Ja", "Nein"]
    indented = " 1.\tPlease read the instructions carefully before you\n\tuse the device."
    assert len(document_of(indented).sentences) == 1 and same(indented, "text") == indented
    quoted = "He wrote:\n> Two men stand in front of a large building, a\n> door. It is red.\n>\n>>Old\nYes."
    sentences = ["He wrote:", "Two men stand in front of a large building, a door.", "It is red.", "Old", "Yes."]
    assert document_of(quoted).sentences == sentences and same(quoted, "text") == quoted
    chinese = document_of("今天下雨。我在家。\n", language="zh")
    for first, last, between in ("„Ja.“", "Nein.", " "), ("", "No.", ""), ("雨です!", "家です。", ""):
        assert chinese.joined([translation(first), translation(last)]) == f"{first}{between}{last}\n"
    assert document_of("A man\tred\n\tTwo  \tmen").sentences == ["A man", "red", "Two", "men"]
    assert document_of("Er kommt am 3. Oktober. Gut.", language="de").sentences == ["Er kommt am 3. Oktober.", "Gut."]


def test_markup_of_markdown_goes_with_its_words():
    for text in "`f` and {0}.", "\\- \\_\\_b\\_\\_.", "3\\. \\<A dog *x*.", "\ufeff# 3. A dog.\n", 'A [x](y "a :)")':
        assert same(text, "markdown") == text
    assert same("> [!NOTE]\n> A dog.\n", "markdown") == "> [!NOTE]\n> A dog.\n"
    document = document_of("A **red** dog [runs\nto](a_b.html) `x` me.", "markdown")
    assert document.joined(map(reversed_words, document.sentences)) == ". me `x` [to runs](a_b.html)\ndog **red** A"
    document = document_of("See [runs] here.\n\n[runs]: http://z.org", "markdown")
    found = document.joined([translation("See runs here.", change=lambda text: text.replace("runs", "läuft_"))])
    assert found == "See [läuft\\_][runs] here.\n\n[runs]: http://z.org"


def test_the_text_is_what_the_sentences_alone_become(translator, monkeypatch):
    """A real model: the translations are the same as without tags, which alone need alignments."""
    watched = Mock(wraps=omission)
    monkeypatch.setattr("resmlp_mt.translate.translator.omission", watched)
    source = "<p>The <b>hen</b> in <i>there</i>. A man.</p><p>Is <a href='x'>it</a> the other?</p>"
    found = translate_text(translator, source, "html", beam=2)
    plain = [each.text for each in translator.translate(["The hen in there.", "A man.", "Is it the other?"], beam=2)]
    assert html.unescape(re.sub("<[^>]*>", "", found)) == f"{plain[0]} {plain[1]}{plain[2]}"
    assert re.sub("[^<]*(<[^>]*>)", r"\1", found) == re.sub("[^<]*(<[^>]*>)", r"\1", source)
    aligned = [call.args[1] for call in watched.call_args_list]
    assert aligned == list(map(translator.tokenizer.encode, ["The hen in there.", "Is it the other?"]))
    monkeypatch.setattr("resmlp_mt.translate.documents.WINDOW", 1)
    with pytest.raises(UserError, match="tokens, but the model takes"):  # before any sentence is translated
        translations_of(translator, document_of(f"A man.\n{LONG.replace('.', '')}"), Options(), pytest.fail)
    with pytest.raises(UserError, match="n_best 2: a document has one translation"):
        translate_text(translator, "A man.", n_best=2)
    with pytest.raises(UserError, match="format 'doc': give one of text, html, markdown, srt"):
        translate_text(translator, "A man.", "doc")


@pytest.fixture
def run_on(run, monkeypatch, tmp_path):
    """A function that runs the command on a file of these bytes, and returns the output file's text."""

    def run_on(content, name="in.txt", out="out.txt", *more):
        monkeypatch.chdir(tmp_path)
        (tmp_path / name).write_bytes(content)
        run("--document", name, out, *more)
        return (tmp_path / out).read_bytes().decode()

    return run_on


@pytest.mark.parametrize(("ending", "kind"), [("txt", "text"), ("html", "html"), ("md", "markdown"), ("srt", "srt")])
def test_files(run_on, translator, ending, kind):
    expected = translate_text(translator, PAGES[kind], kind, beam=2, too_long="split")
    found = run_on(PAGES[kind].encode(), f"in.{ending}", f"out.{ending}", "--beam", "2", "--too-long", "split")
    assert found == expected != PAGES[kind]


def test_a_page_says_that_it_is_in_utf_8(run_on):
    head = "<?xml version='1.0' encoding='%s'?><META content='text/html; charset=%s'><meta charset=%s>"
    kept = "<meta name='description' content='charset=x'><meta charset='UTF-8'/><form accept-charset='latin1'>"
    found = run_on(f"{head % (('iso-8859-1',) * 3)}{kept}<p>A man.</p>".encode(), "in.html", "out.html")
    assert found.startswith(head % (("utf-8",) * 3) + kept)


def test_numbers_of_a_file_that_are_missing_are_told(run_on, capsys):
    assert "17" not in run_on(b"A man.\n\nThe hen is 17.\n", "in.txt", "out.txt", "--check")
    assert "in.txt: 'The hen is 17.': missing: 17" in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("content", "files", "message"),
    [
        (b"A man.\n\xff\n", [], "in.txt:2: not UTF-8 ("),
        (b"A man.", ["in.txt", "in.txt"], "in.txt: would be written over the input in.txt"),
        (b"A man.", ["in.txt", "old.txt"], "old.txt: is there already: move it away, or choose another name"),
        (b"A man.", ["in.doc", "out.doc"], "in.doc, out.doc: give two names that end alike, in .txt, .html, .htm, "),
        (b"A man.", ["in.txt", "out.txt", "--prefix", "Ein"], "--document cannot be combined with --prefix"),
        (b"A man.", ["in.txt", "out.txt", "--json"], "--document cannot be combined with --json"),
        (b"A man.", ["in.txt", "out.txt", "--n-best", "2"], "--document cannot be combined with --n-best"),
        (b"A man.", ["in.txt", "out.txt", "--alignments", "links"], "--document cannot be combined with --alignments"),
        (b"A man.", ["in.txt", "in.txt/out.txt"], "in.txt/out.txt: /"),
        (LONG.replace(". ", " ").encode(), [], "in.txt: 'The hen in there is a man The hen in the"),
        (b"1\n00:00:01,000 --> 00:00:02,000\nA.\n\nB\n", ["in.srt", "out.srt"], "in.srt: line 5: is not the number"),
        (b"1\n00:00:01 -> 2\nA.\n", ["in.srt", "out.srt"], "in.srt: line 2: is not times such as 00:00:01,000"),
        (2 * b"1\n00:00:01,000 --> 00:00:02,000\nA.\n", ["in.srt", "out.srt"], "in.srt: line 5: is times within a sub"),
        (b"1\n", ["in.srt", "out.srt"], "in.srt: line 2: is not times such as 00:00:01,000"),
    ],
)
def test_mistakes_leave_all_as_it_was(run_on, tmp_path, content, files, message):
    (tmp_path / "old.txt").write_text("mine")
    with pytest.raises(SystemExit) as end:
        run_on(content, *files)
    assert str(end.value.code).startswith(message)
    assert len(list(tmp_path.iterdir())) == 2 and (tmp_path / "old.txt").read_text() == "mine"


@pytest.mark.parametrize(("package", "kind"), [("sentencex", "text"), ("markdown_it", "markdown")])
def test_what_is_not_installed(monkeypatch, package, kind):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=r"need.* pip install"):
        document_of("A man.", kind)
