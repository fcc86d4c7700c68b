"""The page in a real browser, with a translator that only pretends; skipped where there is none."""

import shutil

import pytest
from serve.fake_server import HEADS, FakeTranslator, serving

from resmlp_mt.serve.settings import Access

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
BROWSER = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs a chromium on PATH (Debian: apt-get install chromium)")
expect = sync_api.expect

MARKUP = "<img src=x onerror=alert(1)> <b>bold</b> & &amp;"
TOKEN = "sixteen-letters!"


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
    """The page, in an own session, whose errors fail the test."""
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


def translations(page):
    return page.locator(".translation > span:first-child")


def parts(page):
    """Of the translation that is looked into."""
    return page.get_by_role("listbox", name="Translation").get_by_role("option")


def shades(page):
    """The colors of the source's parts."""
    return page.locator("#attended .token").evaluate_all(
        "all => all.map(each => getComputedStyle(each).backgroundColor)"
    )


def test_typing_translates_and_pointing_shades(page):
    expect(page.get_by_text("en → de")).to_be_visible()
    page.get_by_label("Text").press_sequentially("two dogs\n\nrun")
    expect(translations(page)).to_have_text([*3 * ["dogs two"], *3 * ["run"]])
    expect(page.locator(".score").nth(1)).to_have_text("score −0.50")
    expect(parts(page)).to_have_text(["dogs", "two"])
    for at, strongest in enumerate(["dogs", "two"]):
        parts(page).nth(at).hover()
        expect(page.locator("#told")).to_contain_text(f"attends to {strongest} 100 %")
        colors = shades(page)
        assert [color != colors[-1] for color in colors] == [strongest == "two", strongest == "dogs", False]
        rows = page.locator(".matrix tbody tr")
        expect(rows).to_have_count(HEADS)
        expect(rows.first.locator("td:not(.later)")).to_have_count(at + 1)
    plus, minus = (rows.nth(head).locator("td").first.get_attribute("style") for head in range(HEADS))
    assert "--plus" in plus and "--minus" in minus
    expect(page.locator("figcaption").nth(1)).to_have_text("Layer 2 has no matrix A.")
    expect(page.get_by_role("list", name="What it attends to in the source")).to_be_visible()
    expect(page.get_by_role("region", name="What makes a word")).to_be_visible()


def test_markup_stays_text(page):
    page.get_by_label("Text").fill(f"{MARKUP}\n{MARKUP}")
    turned = " ".join(MARKUP.split()[::-1])
    expect(translations(page)).to_have_text(6 * [turned])
    expect(page.locator(".source")).to_have_text(2 * [MARKUP])
    expect(page.locator("main img, main b")).to_have_count(0)
    expect(parts(page).first).to_have_text("&amp;")


def test_by_keyboard(page):
    page.get_by_label("Text").focus()
    page.keyboard.insert_text("one two three")
    page.keyboard.press("Control+Enter")
    expect(translations(page)).to_have_count(3)
    page.get_by_role("button", name="Translate").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(parts(page).and_(page.locator("[aria-selected=true]"))).to_be_focused()
    for key, name in {"Home": "three", "ArrowRight": "two", "ArrowLeft": "three", "End": "one"}.items():
        page.keyboard.press(key)
        expect(page.get_by_role("option", name=name, selected=True)).to_be_focused()
        expect(page.locator("#told")).to_contain_text(f"{name}: attends to {name} 100 %")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".translation").nth(1)).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_can_be_read(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.get_by_label("Text").fill(" ".join(f"{'w' * (3 * number)}" for number in range(1, 23)))
    expect(parts(page)).to_have_count(22)
    parts(page).first.hover()
    expect(page.locator(".matrix")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    text = page.evaluate("getComputedStyle(document.body).color")
    lightness = [sum(map(int, color[4:-1].split(", "))) for color in (ground, text)]
    assert abs(lightness[0] - lightness[1]) > 400 and (lightness[0] > lightness[1]) == (scheme == "light")


def test_an_older_answer_is_ignored(page):
    page.add_init_script("AbortController.prototype.abort = () => {}")  # so that it comes
    page.reload()
    held = []
    page.route("**/translate", lambda route: route.continue_() if held else held.append(route))
    page.get_by_label("Text").fill("the old text")
    expect(page.get_by_role("status").first).to_have_text("Translating …")
    page.get_by_label("Text").fill("a new one")
    expect(translations(page)).to_have_text(3 * ["one new a"])
    with page.expect_response("**/translate") as old:
        held[0].continue_()
    assert "text old the" in old.value.text()
    page.evaluate("new Promise(done => setTimeout(done))")  # a turn of the page, which has the answer by now
    expect(translations(page)).to_have_text(3 * ["one new a"])


def test_what_went_wrong_is_told_and_goes_away(page):
    problem = page.get_by_role("alert")
    page.route("**/translate", lambda route: route.abort(), times=1)
    page.get_by_label("Text").fill("a b")
    expect(problem).to_have_text("The server does not answer. Is it still running?")
    page.route("**/translate", lambda route: route.fulfill(status=502, body="<h1>proxy</h1>"), times=1)
    page.get_by_role("button", name="Translate").click()
    expect(problem).to_have_text("The server's answer cannot be read (status 502).")
    page.get_by_label("Text").fill("breaks")
    expect(problem).to_have_text("The server says: something went wrong in the server: its log tells what")
    page.get_by_label("Text").fill("a b")
    expect(translations(page)).to_have_text(3 * ["b a"])
    expect(problem).to_have_text("")


def test_a_text_in_parts_has_no_rows(page):
    page.get_by_label("Text").fill(" ".join(map(str, range(30))))
    expect(parts(page)).to_have_count(30)
    expect(page.locator("#mixing")).to_be_hidden()


def test_a_token_is_asked_for(browser):
    with serving(FakeTranslator(), access=Access(token=TOKEN)) as (client, _):
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{client.port}/")
        page.get_by_label("Text").fill("a b")
        expect(page.get_by_role("alert")).to_have_text("The server wants a token.")
        for token, text in ("wrong", "This is not the server's token."), (TOKEN, ""):
            page.get_by_label("This server wants a token").fill(token)
            page.get_by_role("button", name="Use it").click()
            expect(page.get_by_role("alert")).to_have_text(text)
        expect(translations(page)).to_have_text(3 * ["b a"])
        expect(page.locator(".matrix")).to_have_count(1)
        page.close()
