"""Tables for people: rows of cells, the first of them the heading, as text and as Markdown."""

from collections.abc import Sequence

from tabulate import tabulate

Rows = Sequence[Sequence[str]]


def text_table(rows: Rows, left: int = 1) -> str:
    """Columns side by side, so many from the first aligned at the left, the others at the right."""
    sides = ["left"] * left + ["right"] * (len(rows[0]) - left)
    return tabulate(rows, tablefmt="plain", colalign=sides, disable_numparse=True, preserve_whitespace=True)


def markdown_table(rows: Rows) -> str:
    """A table in Markdown. (tabulate's has blanks up to the widest cell: one long cell would change every line.)"""
    heading, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([heading, "|" + " --- |" * len(rows[0]), *body])
