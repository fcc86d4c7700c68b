"""Tables for people: rows of cells, the first of them the heading, as text and as Markdown."""

from collections.abc import Mapping, Sequence

Rows = Sequence[Sequence[str]]


def text_table(rows: Rows, left: int = 1) -> str:
    """Columns side by side, as wide as their widest cell.

    Args:
        rows: equally long
        left: how many columns, from the first, have cells that begin below each other; in the others they end so
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def markdown_table(rows: Rows) -> str:
    """A table in Markdown."""
    heading, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([heading, "|" + " --- |" * len(rows[0]), *body])


def facts(mapping: Mapping[str, str]) -> str:
    """A sentence's worth of names and values."""
    return ", ".join(f"{name} {value}" for name, value in mapping.items())
