"""A browser on this machine, and a gesture that playwright has no call for."""

import shutil

BROWSER = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)


def dropped(page, name, content):
    """Drop a file on the page."""
    made = "([name, text]) => { const all = new DataTransfer(); all.items.add(new File([text], name)); return all; }"
    page.dispatch_event("#source", "drop", {"dataTransfer": page.evaluate_handle(made, [name, content])})
