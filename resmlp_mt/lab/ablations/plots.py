"""A table as a picture; the only module here that needs matplotlib."""

from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from resmlp_mt.common.files import atomic_write
from resmlp_mt.lab.ablations.table import Table
from resmlp_mt.lab.colors import RESMLP, SYSTEMS

_PLAIN = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
"""The ground of a number, which keeps lines out of it."""


def draw(table: Table, path: Path) -> None:
    """Draw score, perplexity and speed of every row, with a line at the row that all are compared with."""
    with atomic_write(path, "wb") as stream:
        figure_of(table).savefig(stream, format="png", dpi=120)


def figure_of(table: Table) -> Figure:
    """Three panels, a line of them a row."""
    rows = table.rows
    figure = Figure(figsize=(12, 1.7 + 0.36 * len(rows)), layout="constrained")
    score, perplexity, speed = figure.subplots(1, 3, sharey=True)
    told = "small: each seed; whiskers: standard deviation" if table.seeds else ""
    _dots(score, table, "sacrebleu", "{:.1f}")
    score.set_xlabel(f"sacreBLEU, higher is better\n{told or 'whiskers: 95 % interval (bootstrap)'}")
    _dots(perplexity, table, "perplexity", "{:.2f}")
    perplexity.set_xlabel(f"validation perplexity, lower is better\n{told}")
    words = [fmean(each.training.words_per_second for each in row) for row in rows.values()]
    bars = speed.barh(range(len(rows)), words, color=[*map(_color, rows)], height=0.5)
    speed.bar_label(bars, [f"{value:,.0f}" for value in words], padding=3, fontsize="small", bbox=_PLAIN)
    speed.set_xlabel("speed of the training\n(target subwords a second of the clock)")
    _finish(speed, table, words)
    score.set_yticks(range(len(rows)), list(rows))
    score.set_ylim(len(rows) - 0.5, -0.6)
    figure.suptitle(f"{table.title} ({table.budget})\ndotted: {table.baseline}, which the others are compared with")
    return figure


def whiskers(table: Table, figure: str) -> list[float]:
    """Of each row the standard deviation over seeds; without seeds half of the 95 % interval by the bootstrap, or 0."""
    rows = table.rows
    if table.seeds:
        return [table.spreads(name)[figure].sd or 0.0 for name in rows]
    of = {row.name: row.bootstrap[figure] for row in table.figures if row.bootstrap and figure in row.bootstrap}
    found = {name: each["system"]["ci"] for name, each in of.items()}
    if of:
        found[table.baseline] = next(iter(of.values()))["baseline"]["ci"]
    return [found.get(name, 0.0) for name in rows]


def _color(row: str) -> str:
    """That of the row's system; variants have that of the ResMLP."""
    return SYSTEMS.get(row.lower(), RESMLP)


def _dots(axis: Any, table: Table, figure: str, form: str) -> None:
    means = [table.spreads(name)[figure].mean for name in table.rows]
    for place, (row, mean, error) in enumerate(zip(table.rows, means, whiskers(table, figure), strict=True)):
        color = _color(row)
        axis.errorbar(mean, place, xerr=error or None, fmt="o", color=color, capsize=3)
        if table.seeds:
            points = table.values(row, figure)
            axis.plot(points, [place + 0.25] * len(points), "o", color=color, markersize=3, alpha=0.6)
        axis.annotate(
            form.format(mean), (mean, place), (0, 7),
            textcoords="offset points", ha="center", fontsize="small", bbox=_PLAIN,
        )  # fmt: skip
    axis.grid(axis="x", alpha=0.3)
    _finish(axis, table, means)


def _finish(axis: Any, table: Table, values: list[float]) -> None:
    for name, value in zip(table.rows, values, strict=True):
        if name == table.baseline:
            axis.axvline(value, color="0.45", linewidth=1, linestyle=":", zorder=0)
    axis.margins(x=0.15)
    axis.spines[["top", "right"]].set_visible(False)
