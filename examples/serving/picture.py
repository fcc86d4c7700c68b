"""Take a picture of the page with a text and a word pointed at. Needs a running ``resmlp-mt serve`` and a chromium.

pip install playwright
python examples/serving/picture.py http://127.0.0.1:8000 --out page.png
"""

import argparse
import shutil
import sys

from playwright.sync_api import Error, expect, sync_playwright

TEXT = """A young girl in a red coat is playing in the snow. Two men are sitting on a bench, talking to each other.

A brown dog runs through the park with a ball in its mouth."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="of the server")
    parser.add_argument("--out", required=True, help="a PNG file")
    parser.add_argument("--text", default=TEXT)
    parser.add_argument("--point-at", type=int, default=5, help="which word of the translation (default: 5)")
    parser.add_argument("--width", type=int, default=900, help="of the window (default: %(default)s)")
    parser.add_argument("--dark", action="store_true")
    args = parser.parse_args()
    try:
        take(args)
    except Error as error:
        sys.exit(f"{args.address}: {error.message.splitlines()[0]}")


def take(args: argparse.Namespace) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        scheme = "dark" if args.dark else "light"
        page = browser.new_page(viewport={"width": args.width, "height": 600}, color_scheme=scheme)
        page.goto(args.address)
        page.get_by_role("textbox", name="Text in").fill(args.text)
        words = page.locator("#translation .word")
        expect(words.first).to_be_visible(timeout=60_000)
        words.nth(args.point_at % words.count()).hover()
        page.get_by_text("How it works").click()
        expect(page.locator("#told")).to_contain_text("Layer 1")
        page.screenshot(path=args.out, full_page=True)


if __name__ == "__main__":
    main()
