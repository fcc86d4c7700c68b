"""The page in a real browser, with a fake translator; skipped if there is no browser."""

import re
import shutil

import pytest
from serve.fake_server import HEADS, TOKEN, FakeTranslator, serving

from resmlp_mt.serve.settings import Access

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
BROWSER = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs a chromium on PATH (Debian: apt-get install chromium)")
expect = sync_api.expect

MARKUP = "<img src=x onerror=alert(1)> <b>bold</b> & &amp;"


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def client():
    with serving(FakeTranslator()) as (client, _):
        yield client


@pytest.fixture
def page(browser, client):
    """The page in its own browser session; its errors fail the test."""
    problems = []
    context = browser.new_context(viewport={"width": 360, "height": 700})
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if "Security" in message.text else None)
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.goto(f"http://127.0.0.1:{client.port}/")
    yield page
    context.close()
    assert not problems


def text(page):
    return page.get_by_role("textbox", name="Text in English")


def translation(page):
    """Return the region that shows the whole translation."""
    return page.get_by_role("region", name="Translation in German")


def words(page):
    """Return the words of the chosen sentence."""
    return page.get_by_role("listbox", name="Words").get_by_role("option")


def parts(page):
    """Return the subwords of the chosen sentence."""
    return page.get_by_role("listbox", name="Parts of the translation").get_by_role("option")


def shades(page, selector):
    return page.locator(selector).evaluate_all("all => all.map(each => getComputedStyle(each).backgroundColor)")


def dropped(page, name, content):
    """Drop a file on the page."""
    made = "([name, text]) => { const all = new DataTransfer(); all.items.add(new File([text], name)); return all; }"
    page.dispatch_event("#source", "drop", {"dataTransfer": page.evaluate_handle(made, [name, content])})


def test_typing_translates_and_pointing_shades(page):
    expect(page.get_by_text("Text in English")).to_be_visible()
    text(page).press_sequentially("two dogs\n\n  run")
    expect(translation(page)).to_have_text("dogs two\n\n  run", use_inner_text=True)
    expect(page.locator("#which")).to_have_text("sentence 1 of 2")
    for at, (word, source) in enumerate([("dogs", "dogs"), ("two", "two")]):
        page.locator("#translation .word").nth(at).hover()
        expect(page.get_by_role("option", name=word, selected=True)).to_be_visible()
        expect(page.locator("#word")).to_contain_text(f"“{word}”: made from “{source}”")
        colors = shades(page, "#from .token")
        assert len(set(colors)) == 2 and colors[1 - at] != colors[at]
    page.locator("#translation .word").nth(2).hover()
    expect(page.locator("#which")).to_have_text("sentence 2 of 2")
    expect(page.locator("#word")).to_have_text("“run”: made from “run”; the model is 5 % sure.")  # e^-3
    page.get_by_role("button", name="Previous sentence").click()
    expect(words(page)).to_have_text(["dogs", "two"])
    for known, other in ("#words .token", "#words .token"), ("#translation .word", "#words .token"):
        assert shades(page, known)[:2] == shades(page, other)  # each word's own shade
    expect(page.get_by_role("list", name="Words of the text")).to_be_visible()


def test_how_it_works(page):
    text(page).fill("two dogs")
    expect(words(page)).to_have_count(2)
    expect(parts(page)).to_have_count(0)
    words(page).nth(1).hover()
    page.get_by_text("How it works").click()
    expect(page.locator("#word")).to_contain_text("“two”")  # it is still the chosen word
    for at, strongest in enumerate(["dogs", "two"]):
        parts(page).nth(at).hover()
        expect(page.locator("#told")).to_contain_text(f"depends on {strongest} 100 %")
        colors = shades(page, "#attended .token")
        assert [color != colors[-1] for color in colors] == [strongest == "two", strongest == "dogs", False]
        rows = page.locator(".matrix tbody tr")
        expect(rows).to_have_count(HEADS)
        expect(rows.first.locator("td:not(.later)")).to_have_count(at + 1)
    plus, minus = (rows.nth(head).locator("td").first.get_attribute("style") for head in range(HEADS))
    assert "--plus" in plus and "--minus" in minus
    expect(page.locator("figcaption").nth(1)).to_have_text("Layer 2 has no matrix A.")
    expect(page.get_by_role("list", name="What it depends on in the text")).to_be_visible()
    expect(page.get_by_role("region", name="A closer look")).to_be_visible()


def test_markup_stays_text(page):
    text(page).fill(f"{MARKUP}\n{MARKUP}")
    turned = " ".join(MARKUP.split()[::-1])
    expect(translation(page)).to_have_text(f"{turned}\n{turned}", use_inner_text=True)
    expect(page.locator("#others .translation > span:first-child")).to_have_text(3 * [turned])
    expect(page.locator("main img, main b")).to_have_count(0)
    expect(words(page).first).to_have_text("&amp;")
    expect(page.locator("#from .token")).to_have_text(MARKUP.split())
    text(page).fill("a\ufeffb c")  # two words for Python, three for JavaScript
    expect(page.locator("#from .token")).to_have_count(2)


def test_by_keyboard(page):
    """The whole page, from the text on, by Tab, Enter and the arrows."""

    def tab(*names):
        for name in names:
            page.keyboard.press("Tab")
            expect(page.locator(":focus")).to_have_accessible_name(name)

    text(page).focus()
    page.keyboard.insert_text("one two three\nfour five")
    page.keyboard.press("Control+Enter")
    expect(words(page)).to_have_count(3)
    tab("Translation in German", "Translate", "Kind of text", "Open a file", "Copy")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_have_text("Copied.")
    tab("Save", "Words that must be said, or not", "Next sentence", "three")
    for key, name in {"Home": "three", "ArrowRight": "two", "ArrowLeft": "three", "End": "one"}.items():
        page.keyboard.press(key)
        expect(page.get_by_role("option", name=name, selected=True)).to_be_focused()
        expect(page.locator("#word")).to_contain_text(f"“{name}”: made from “{name}”")
    tab(re.compile("three two one"), re.compile("three two one"))
    page.keyboard.press("Enter")
    expect(page.locator("#others .translation").nth(1)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#others .translation").nth(1)).to_be_focused()
    for key in "Shift+Tab", "Shift+Tab", "Shift+Tab", "Enter":
        page.keyboard.press(key)
    expect(words(page)).to_have_text(["five", "four"])


@pytest.mark.parametrize(
    ("name", "kind", "content"),
    [
        ("a.b.html", "html", '<p class="a">one <b>two</b></p>\n<p>three a</p>'),
        ("A.MD", "markdown", "# one two\n\n* three a\n"),
        ("x.srt", "srt", "1\n00:00:01,000 --> 00:00:02,000\none two\n\n2\n00:00:03,000 --> 00:00:04,000\nthree a\n"),
        ("y", "text", "one two\n\nthree a\n"),
    ],
)
def test_a_file_is_dropped_translated_copied_and_saved(page, name, kind, content):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    asked = []
    page.on("request", lambda request: asked.append(request.post_data_json) if request.method == "POST" else None)
    dropped(page, name, content)
    expect(text(page)).to_have_value(content)
    expect(page.locator("#translation .word")).to_have_text(["two", "one", "a", "three"])
    assert asked[-1]["format"] == kind
    turned = content.replace("one two", "two one").replace("three a", "a three")
    turned = turned.replace("one <b>two</b>", "<b>two</b> one")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("status").first).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == turned
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    stem, dot, end = name.rpartition(".")
    assert download.value.suggested_filename == (f"{stem}.de.{end}" if dot else "y.de.txt")
    assert download.value.path().read_text() == turned


def test_words_that_must_or_must_not_come_out(page):
    page.get_by_text("Words that must be said, or not").click()
    page.get_by_label("Glossary").fill("two = zwei\n\nbad line\na cat=Katze")
    page.get_by_label("Words to avoid").fill("dog, big cat")
    with page.expect_request("**/translate") as asked:
        text(page).fill("two dogs")
    options = asked.value.post_data_json["options"]
    assert options["glossary"] == {"two": "zwei", "a cat": "Katze"} and options["avoid"] == ["dog", "big cat"]
    expect(translation(page)).to_have_text("dogs two")
    with page.expect_request("**/translate"):  # a browser's last event after letters from an input method
        page.get_by_label("Words to avoid").dispatch_event("compositionend")


def test_a_file_is_opened_if_it_is_text(page, tmp_path):
    path = tmp_path / "it.txt"
    for encoding in "utf-8", "latin-1":
        path.write_text("Grüße an alle", encoding)
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Open a file").click()
        chooser.value.set_files(path)
        expect(translation(page)).to_have_text("alle an Grüße")
    expect(page.locator("#problem")).to_have_text("it.txt cannot be read as text in UTF-8.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_can_be_read(page, scheme):
    page.emulate_media(color_scheme=scheme)
    text(page).fill(" ".join(f"{'w' * (3 * number)}" for number in range(1, 23)))
    page.get_by_text("How it works").click()
    expect(parts(page)).to_have_count(22)
    parts(page).first.hover()
    expect(page.locator(".matrix")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    letters = page.evaluate("getComputedStyle(document.body).color")
    lightness = [sum(map(int, color[4:-1].split(", "))) for color in (ground, letters)]
    assert abs(lightness[0] - lightness[1]) > 400 and (lightness[0] > lightness[1]) == (scheme == "light")


def test_an_older_answer_is_ignored(page):
    page.add_init_script("AbortController.prototype.abort = () => {}")  # so that the old answer comes
    page.reload()
    held = []
    page.route("**/translate", lambda route: route.continue_() if held else held.append(route))
    text(page).fill("the old text")
    expect(page.get_by_role("status").first).to_have_text("Translating …")
    text(page).fill("a new one")
    expect(translation(page)).to_have_text("one new a")
    with page.expect_response("**/translate") as old:
        held[0].continue_()
    assert "text old the" in old.value.text()
    page.evaluate("new Promise(done => setTimeout(done))")  # one turn of the event loop: the page has the answer now
    expect(translation(page)).to_have_text("one new a")


def test_what_went_wrong_is_told_and_goes_away(page):
    problem = page.get_by_role("alert")
    page.route("**/translate", lambda route: route.abort(), times=1)
    text(page).fill("a b")
    expect(problem).to_have_text("The server does not answer. Is it still running?")
    page.route("**/translate", lambda route: route.fulfill(status=502, body="<h1>proxy</h1>"), times=1)
    page.get_by_role("button", name="Translate").click()
    expect(problem).to_have_text("The server's answer cannot be read (status 502).")
    text(page).fill("breaks")
    expect(problem).to_have_text("The server says: something went wrong in the server: its log tells what")
    text(page).fill("a b")
    expect(translation(page)).to_have_text("b a")
    expect(problem).to_have_text("")


def test_a_text_in_parts_has_no_rows(page):
    text(page).fill(" ".join(f"w{number}" for number in range(30)))
    page.get_by_text("How it works").click()
    expect(parts(page)).to_have_count(30)
    expect(page.locator("#mixing")).to_be_hidden()


def test_a_token_is_asked_for(browser):
    with serving(FakeTranslator(), access=Access(token=TOKEN)) as (client, _):
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{client.port}/")
        text(page).fill("a b")
        expect(page.get_by_role("alert")).to_have_text("The server wants a token.")
        for token, problem in ("wrong", "This is not the server's token."), (TOKEN, ""):
            page.get_by_label("This server wants a token").fill(token)
            page.get_by_role("button", name="Use it").click()
            expect(page.get_by_role("alert")).to_have_text(problem)
        expect(translation(page)).to_have_text("b a")
        page.get_by_text("How it works").click()
        expect(page.locator(".matrix")).to_have_count(1)
        page.close()
