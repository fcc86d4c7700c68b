"""Pictures and tables on one HTML page that needs no other file and no network."""

import base64
from collections.abc import Mapping, Sequence
from html import escape

from tabulate import tabulate

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; }
h1, h2 { line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin-top: 2.5rem; border-top: 1px solid gray; padding-top: 1rem; }
p { max-width: 45rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: 1rem 0; }
.wide img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.8rem 0.2rem 0; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { border-bottom: 1px solid gray; }
nav a { display: inline-block; margin-right: 1rem; padding: 0.2rem 0; }
"""


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def picture(png: bytes, description: str) -> str:
    data = base64.b64encode(png).decode("ascii")
    return f'<div class="wide"><img src="data:image/png;base64,{data}" alt="{escape(description)}"></div>'


def table(rows: Sequence[Sequence[str]]) -> str:
    html = tabulate(rows, headers="firstrow", tablefmt="html", disable_numparse=True)
    return f'<div class="wide">{html}</div>'


def page(title: str, sections: Mapping[str, Sequence[str]]) -> str:
    """Return the whole page. The parts of a section are HTML; the top of the page links to each section's heading."""
    links, parts = "", list[str]()
    for number, (heading, body) in enumerate(sections.items(), 1):
        links += f'<a href="#part{number}">{escape(heading)}</a> '
        parts += [f'<h2 id="part{number}">{escape(heading)}</h2>', *body]
    body = "\n".join(parts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<nav>{links}</nav>
{body}
</body>
</html>
"""
