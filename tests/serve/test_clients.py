"""Four clients translate the same HTML, with a link, a number and a glossary term: all get the same result."""

import json
import subprocess
import sys

import lxml.html
import pytest
from serve.browser import BROWSER, dropped
from serve.fake_server import serving

from resmlp_mt import Translator
from resmlp_mt.cli import main
from resmlp_mt.translate.documents import translate_text

PARAGRAPH = '<p>A man <a href="https://example.org/?a=1&amp;b=2">is in</a> {hen} &amp; a <b>bench</b> of 25.</p>'
TERM = "bench", "Sitzbank"


@pytest.fixture(scope="module")
def address(folder):
    with serving(Translator(folder), glossary=(TERM,)) as (client, _):
        yield f"http://127.0.0.1:{client.port}/"


def by_shell(folder, address, tmp_path, monkeypatch):
    (tmp_path / "terms.tsv").write_text("\t".join(TERM) + "\n")
    (tmp_path / "in.html").write_text(PARAGRAPH)
    monkeypatch.chdir(tmp_path)
    files = ["--document", "in.html", "out.html", "--glossary", "terms.tsv"]
    monkeypatch.setattr(sys, "argv", ["resmlp-mt", "translate", str(folder), *files])
    main()
    return (tmp_path / "out.html").read_text()


def by_curl(folder, address, tmp_path, monkeypatch):
    fields = {"q": PARAGRAPH, "source": "en", "target": "de", "format": "html"}
    options = [word for name, value in fields.items() for word in ("--data-urlencode", f"{name}={value}")]
    done = subprocess.run(["curl", "-sS", *options, f"{address}translate"], capture_output=True, check=True)
    return json.loads(done.stdout)["translatedText"]


def by_libretranslatepy(folder, address, tmp_path, monkeypatch):
    libretranslatepy = pytest.importorskip("libretranslatepy", reason="needs libretranslatepy")
    return libretranslatepy.LibreTranslateAPI(address).translate(PARAGRAPH, "en", "de")


def by_page(folder, address, tmp_path, monkeypatch):
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    browser = BROWSER or pytest.skip("needs chromium")
    with sync_api.sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=browser).new_page()
        page.goto(address)
        dropped(page, "in.html", PARAGRAPH)
        with page.expect_download() as download:
            page.get_by_role("button", name="Save").click()
        return download.value.path().read_text()


@pytest.mark.parametrize("client", [by_shell, by_curl, by_libretranslatepy, by_page])
def test_a_paragraph_of_html(folder, address, tmp_path, monkeypatch, client):
    found = client(folder, address, tmp_path, monkeypatch)
    assert found == translate_text(Translator(folder), PARAGRAPH, "html", glossary=(TERM,))
    paragraph = lxml.html.fragment_fromstring(found)
    (link,), (_,) = paragraph.findall("a"), paragraph.findall("b")
    assert link.get("href") == "https://example.org/?a=1&b=2"
    assert "Sitzbank" in paragraph.text_content() and "{hen}" in paragraph.text_content()
