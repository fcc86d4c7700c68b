"""LibreTranslate's interface, used by its clients from PyPI and by plain requests."""

import json
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest
from serve.fake_server import TOKEN, FakeTranslator, serving

from resmlp_mt.serve.settings import Access

libretranslatepy = pytest.importorskip("libretranslatepy", reason="needs libretranslatepy")
deep_translator = pytest.importorskip("deep_translator", reason="needs deep-translator")
pytest.importorskip("py3langid", reason="needs py3langid")
ENGLISH, GERMAN = "Two dogs are running on the beach.", "Zwei Hunde laufen über den Strand."
TURNED = "beach. the on running are dogs Two"


@pytest.fixture(scope="module")
def guarded():
    with serving(FakeTranslator(), access=Access(token=TOKEN)) as (client, _):
        yield f"http://127.0.0.1:{client.port}/"


def asking(**fields):
    return {"q": "a b", "source": "en", "target": "de", **fields}


def test_libretranslatepy(guarded):
    api = libretranslatepy.LibreTranslateAPI(guarded, TOKEN)
    assert api.translate(ENGLISH, "en", "de") == TURNED
    assert api.translate("a <b>b</b> & c", "en", "de") == "c &amp; <b>b</b> a"  # it cannot ask for a format
    assert [each["code"] for each in api.languages()] == ["en", "de"]
    assert [each["name"] for each in api.languages()] == ["English", "German"]
    for text, language in (ENGLISH, "en"), (GERMAN, "de"):
        assert api.detect(text)[0]["language"] == language
    for call, status in [
        (lambda: libretranslatepy.LibreTranslateAPI(guarded).translate("a", "en", "de"), 403),
        (lambda: api.detect(""), 400),
        (lambda: api.translate(6000 * "a", "en", "de"), 413),
    ]:
        with pytest.raises(HTTPError) as raised:
            call()
        assert raised.value.code == status and json.load(raised.value).keys() == {"error"}


def test_deep_translator(guarded):
    translator = deep_translator.LibreTranslator("en", "de", TOKEN, custom_url=guarded)
    assert translator.translate(ENGLISH) == TURNED
    assert translator.translate_batch(["a b", "Grüße & <b>c"]) == ["b a", "<b>c & Grüße"]


def test_a_list_alternatives_and_a_language_to_be_told(client):
    answer = client.ask(body=asking(q=["a b\n\n c d", GERMAN, ENGLISH], source="auto", alternatives=1, other=None))
    detected = answer.values.pop("detectedLanguage")
    texts = ["b a\n\n d c", GERMAN, TURNED]
    assert answer.values == {"translatedText": texts, "alternatives": [[text] for text in texts]}
    assert [each["language"] for each in detected[1:]] == ["de", "en"]
    assert all(50 <= each["confidence"] <= 100 for each in detected)
    one = client.ask(body=asking(q=GERMAN, source="auto", alternatives=1)).values
    assert (one["translatedText"], one["alternatives"]) == (GERMAN, [GERMAN])
    assert one["detectedLanguage"]["language"] == "de" and one["detectedLanguage"]["confidence"] > 90
    long = " ".join(30 * "a")
    assert client.ask(body=asking(q=long, format="text")).values == {"translatedText": long}
    marked = client.ask(body=asking(q='a <a href="x">b</a> &amp; c<br>', format="html")).values["translatedText"]
    assert marked == 'c &amp; <a href="x">b</a> a<br>'


def test_words_that_must_or_must_not_come_out():
    translator = FakeTranslator()
    with serving(translator, glossary=(("a", "b"),)) as (client, _):
        own = {"texts": ["a b"], "options": {"glossary": {"x": ["y", "z"]}, "avoid": ["w"], "prefix": "p"}}
        for body in own, asking(**own["options"]):
            assert client.ask(body=body).status == 200
            found = translator.options
            assert (found.glossary, found.avoid, found.prefix) == ((("x", "y", "z"),), ("w",), "p")
        for body in {"texts": ["a b"]}, asking():  # the server's own glossary
            assert client.ask(body=body).status == 200 and translator.options.glossary == (("a", "b"),)


def test_a_form(client):
    form = "application/x-www-form-urlencoded; charset=utf-8"
    body = urlencode(asking(q="ü + b", alternatives="1")).encode()
    assert client.ask(body=body, Content_Type=form).values == {"translatedText": "b + ü", "alternatives": ["b + ü"]}
    assert client.ask(body=json.dumps(asking()).encode(), Content_Type=form).status == 200  # curl -d without -H
    assert client.ask("/detect", urlencode({"q": GERMAN}).encode(), Content_Type=form).values[0]["language"] == "de"


BAD = [  # request, status, what the one line says
    *((asking(q=q), 400, "Invalid request: missing q parameter") for q in ("", [])),
    ({"q": "a", "target": "de"}, 400, "Invalid request: missing source parameter"),
    ({"q": "a", "source": "en"}, 400, "Invalid request: missing target parameter"),
    *((asking(q=q), 400, "q") for q in ({"a": 1}, ["a", 1])),
    *((asking(**{side: "zz"}), 400, "zz is not supported") for side in ("source", "target")),
    (asking(target="auto"), 400, "auto is not supported"),
    (asking(target=["de"]), 400, "target: "),
    (asking(source="de", target="en"), 400, "en is not available as a target language from de"),
    (asking(q=GERMAN, source="auto", target="en"), 400, "en is not available as a target language from de"),
    (asking(format="pdf"), 400, "format: Input should be 'text' or 'html'"),
    (asking(alternatives=-1), 400, "alternatives: "),
    (asking(alternatives=5), 400, "alternatives is 5: give at most 4"),
    (asking(q=201 * "a"), 413, "sentences: 202 characters"),
]


@pytest.mark.parametrize(("body", "status", "message"), BAD)
def test_a_bad_request_is_refused_in_one_line(client, body, status, message):
    answer = client.ask(body=body)
    assert (answer.status, answer.values["error"][: len(message)]) == (status, message)
    assert answer.values.keys() == {"error"} and "\n" not in answer.text


def test_what_the_server_says_about_itself(client):
    assert client.ask("/spec").values == client.ask("/openapi.json").values
    settings = client.ask("/frontend/settings").values
    assert (settings["charLimit"], settings["keyRequired"]) == (200, False)
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    for path in "/languages", "/spec":
        assert client.ask(path, b"{}").status == 405
