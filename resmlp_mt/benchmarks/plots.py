"""Sections as pictures; the only module here that needs matplotlib."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from resmlp_mt.benchmarks.comparison import Row, Section
from resmlp_mt.files import atomic_write


def draw(section: Section, path: Path) -> None:
    """Draw a section: lines over lengths, or bars beside each other.

    Raises:
        UserError: the file cannot be written
    """
    figure = by_length(section) if section.by == "length" else by_sentences(section)
    figure.suptitle(section.title)
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format="png", dpi=120)
    plt.close(figure)


def colours(section: Section) -> dict[str, str]:
    """The baseline is grey, the others differ."""
    names = list(dict.fromkeys(row.system for row in section.rows))
    others = itertools.cycle(f"C{number}" for number in range(10) if number != 7)  # which is grey itself
    return {name: "0.45" if name == section.baseline else next(others) for name in names}


def legend(figure: Any, axis: Any, title: str) -> None:
    """The names below all panels, since they can be long."""
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small", title=title)


def by_length(section: Section) -> Any:
    """Speed over the baseline's, time a token and peak memory against length; dashed what FLOPs predict.

    The prediction of a time takes the time of the shortest length for granted.
    """
    panels: list[tuple[str, Callable[[Row], float | None], Callable[[Row, Row], float | None]]] = [
        ("times as fast as " + section.baseline, lambda row: row.ratio.median, lambda row, _: row.flop_ratio),
        (
            "microseconds a token",
            lambda row: 1e6 / row.rate.median,
            lambda row, first: 1e6 / first.rate.median * row.flops / first.flops if row.flops and first.flops else None,
        ),
        (
            "peak MB",
            lambda row: None if row.memory is None else row.memory / 1e6,
            lambda row, first: None,
        ),
    ]
    figure, axes = plt.subplots(1, len(panels), figsize=(15, 5), layout="constrained")
    for axis, (label, measured, predicted) in zip(axes, panels, strict=True):
        for name, colour in colours(section).items():
            rows = [row for row in section.rows if row.system == name]
            lengths = [row.length for row in rows]
            axis.plot(lengths, [measured(row) for row in rows], "o-", color=colour, label=name)
            axis.plot(lengths, [predicted(row, rows[0]) for row in rows], "--", color=colour, linewidth=1)
        axis.set_xscale("log", base=2)
        axis.set_xticks(lengths, [str(length) for length in lengths])
        if axis is axes[1]:
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
        axis.set_xlabel("length in subwords")
        axis.set_title(label)
        axis.grid(alpha=0.3)
    legend(figure, axes[0], "dashed: FLOPs alone")
    return figure


def by_sentences(section: Section) -> Any:
    """Speed over the baseline's and tokens a second as bars, quartiles as whiskers; black ticks what FLOPs predict."""
    workloads = list(dict.fromkeys(row.workload for row in section.rows))
    figure, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    shades = colours(section)
    width = 0.8 / len(shades)
    for axis, label in zip(axes, ("times as fast as " + section.baseline, "tokens a second"), strict=True):
        for place, (name, colour) in enumerate(shades.items()):
            rows = [row for row in section.rows if row.system == name]
            spreads = [row.ratio if axis is axes[0] else row.rate for row in rows]
            left = [workloads.index(row.workload) - 0.4 + (place + 0.5) * width for row in rows]
            medians = [spread.median for spread in spreads]
            whiskers = [
                [spread.median - spread.low for spread in spreads],
                [spread.high - spread.median for spread in spreads],
            ]
            bars = axis.bar(left, medians, 0.92 * width, yerr=whiskers, color=colour, capsize=2, label=name)
            if axis is axes[0]:
                axis.bar_label(bars, fmt="%.2f", padding=3, fontsize="small", rotation=90)
                axis.margins(y=0.15)
                for x, row in zip(left, rows, strict=True):
                    if row.flop_ratio:
                        axis.hlines(row.flop_ratio, x - width / 2, x + width / 2, color="black", linewidth=2)
        axis.set_xticks(range(len(workloads)), workloads)
        axis.set_xlabel("length x sentences")
        axis.set_title(label)
    legend(figure, axes[0], "black: FLOPs alone")
    return figure
