"""A table as a picture; the only module here that needs matplotlib."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from resmlp_mt.ablations.table import Table
from resmlp_mt.colors import RESMLP, SYSTEMS
from resmlp_mt.files import atomic_write

_PLAIN = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
"""The ground of a number, which keeps lines out of it."""


def draw(table: Table, path: Path) -> None:
    """Draw score, perplexity and speed of every row, with a line at the row that all are compared with.

    The whiskers are the 95 % interval of each row's score over the resamples of the paired bootstrap.

    Raises:
        UserError: the file cannot be written
    """
    rows = table.figures
    height = 1.7 + 0.36 * len(rows)
    figure = Figure(figsize=(12, height), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    _dots(axes[0], table, [row.scores["sacrebleu"]["score"] for row in rows], "{:.1f}", whiskers(table))
    axes[0].set_xlabel("sacreBLEU, higher is better\nwhiskers: 95 % interval (bootstrap)")
    _dots(axes[1], table, [row.training.perplexity for row in rows], "{:.2f}", None)
    axes[1].set_xlabel("validation perplexity\nlower is better")
    _bars(axes[2], table, [row.training.words_per_second for row in rows])
    axes[2].set_xlabel("speed of the training\n(target subwords a second of the clock)")
    axes[0].set_yticks(range(len(rows)), [row.name for row in rows])
    axes[0].set_ylim(len(rows) - 0.5, -0.6)
    figure.suptitle(f"{table.title} ({table.budget})\ndotted: {table.baseline}, which the others are compared with")
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format="png", dpi=120)


def whiskers(table: Table) -> list[float]:
    """Half of the 95 % interval of each row's sacreBLEU; 0 where nothing was compared."""
    compared = [row.bootstrap["sacrebleu"] for row in table.figures if row.bootstrap]
    baseline = compared[0]["baseline"]["ci"] if compared else 0.0
    return [
        row.bootstrap["sacrebleu"]["system"]["ci"] if row.bootstrap else baseline if row.name == table.baseline else 0.0
        for row in table.figures
    ]


def _colors(table: Table) -> list[str]:
    """The color of each row's system; variants have that of the ResMLP."""
    return [SYSTEMS.get(row.name.lower(), RESMLP) for row in table.figures]


def _dots(axis: Any, table: Table, values: list[float], form: str, errors: list[float] | None) -> None:
    for place, (value, color) in enumerate(zip(values, _colors(table), strict=True)):
        axis.errorbar(value, place, xerr=errors and errors[place], fmt="o", color=color, capsize=3)
        text = form.format(value)
        axis.annotate(
            text, (value, place), (0, 7), textcoords="offset points", ha="center", fontsize="small", bbox=_PLAIN
        )
    axis.grid(axis="x", alpha=0.3)
    _finish(axis, table, values)


def _bars(axis: Any, table: Table, values: list[float]) -> None:
    bars = axis.barh(range(len(values)), values, color=_colors(table), height=0.5)
    axis.bar_label(bars, [f"{value:,.0f}" for value in values], padding=3, fontsize="small", bbox=_PLAIN)
    _finish(axis, table, values)


def _finish(axis: Any, table: Table, values: list[float]) -> None:
    for row, value in zip(table.figures, values, strict=True):
        if row.name == table.baseline:
            axis.axvline(value, color="0.45", linewidth=1, linestyle=":", zorder=0)
    axis.margins(x=0.15)
    axis.spines[["top", "right"]].set_visible(False)
