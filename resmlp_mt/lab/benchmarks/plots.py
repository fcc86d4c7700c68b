"""Sections, and BLEU against speed, as pictures; the only module here that needs matplotlib."""

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from resmlp_mt.common.files import atomic_write
from resmlp_mt.lab.benchmarks.measuring import Measurement, Spread
from resmlp_mt.lab.benchmarks.real_text import Row
from resmlp_mt.lab.benchmarks.report import Section
from resmlp_mt.lab.trainings.curves import colors_of


def draw(section: Section, path: Path) -> None:
    """Draw a section: lines over lengths, or bars beside each other."""
    figure = by_length(section) if section.by == "length" else by_sentences(section)
    figure.suptitle(section.title)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format="png", dpi=120)


def legend(figure: Any, axis: Any, title: str) -> None:
    """The names below all panels, since they can be long, and what the marks mean."""
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small", title=title)


Panel = tuple[
    str, Callable[[Measurement], Spread | float | None], Callable[[Measurement, Measurement], float | None] | None
]
"""A title; a figure of a row; what FLOPs predict for it, told the row and that of the shortest length."""


def predicted_time(row: Measurement, first: Measurement) -> float | None:
    """Microseconds a token that FLOPs predict, where those of the shortest length are taken for granted."""
    return 1e6 / first.rate.median * row.flops / first.flops if row.flops and first.flops else None


def time_per_token(row: Measurement) -> Spread:
    """Microseconds; the quickest quarter is the rate's upper one."""
    return Spread(1e6 / row.rate.median, 1e6 / row.rate.high, 1e6 / row.rate.low)


def by_length(section: Section) -> Any:
    """Speed over the baseline's, and what a token costs in time and in memory, against length."""
    panels: list[Panel] = [
        (f"times as fast as {section.baseline}", lambda row: row.ratio, lambda row, _: row.flop_ratio),
        ("time a token (microseconds)", time_per_token, predicted_time),
        ("peak memory a token (kB)", lambda row: row.memory_per_token and row.memory_per_token / 1e3, None),
        ("peak memory (MB)", lambda row: row.memory and row.memory / 1e6, None),
    ]
    panels = [panel for panel in panels if any(map(panel[1], section.rows))]
    deep = math.ceil(len(panels) / 2)
    figure = Figure(figsize=(13, 4.5 * deep), layout="constrained")
    axes = figure.subplots(deep, 2)
    lengths = sorted({row.length for row in section.rows})
    for axis, panel in zip(axes.flat, panels, strict=True):
        for (name, color), marker in zip(
            colors_of(row.system for row in section.rows).items(), itertools.cycle("osD^vP*X")
        ):
            rows = sorted((row for row in section.rows if row.system == name), key=lambda row: row.length)
            line(axis, panel, rows, color=color, marker=marker, label=name)
        axis.set_xscale("log", base=2)
        axis.set_xticks(lengths, map(str, lengths))
        axis.xaxis.set_minor_locator(NullLocator())
        plain_log(axis)
        axis.set_xlabel("length (subwords, logarithmic)")
        axis.set_ylabel(f"{panel[0]}, logarithmic")
        axis.grid(alpha=0.3)
    legend(figure, axes.flat[0], "whiskers: quartiles of the rounds; dashed: what FLOPs alone predict")
    return figure


def line(axis: Any, panel: Panel, rows: list[Measurement], **style: Any) -> None:
    """One system in a panel, over its lengths."""
    _, figure, predicted = panel
    values = {row.length: value for row in rows if (value := figure(row))}
    spreads = [value if isinstance(value, Spread) else Spread.of([value]) for value in values.values()]
    medians = [spread.median for spread in spreads]
    axis.errorbar(list(values), medians, whiskers(spreads), capsize=2, elinewidth=1, markersize=5, **style)
    if predicted:
        predictions = [predicted(row, rows[0]) for row in rows]
        axis.plot([row.length for row in rows], predictions, "--", color=style["color"], linewidth=1)


def whiskers(spreads: list[Spread]) -> list[list[float]]:
    """How far the quartiles are below and above the medians."""
    return [[each.median - each.low for each in spreads], [each.high - each.median for each in spreads]]


def plain_log(axis: Any) -> None:
    """A logarithmic axis with numbers as people write them, more of them where the range is small."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    steps: list[float] = [1, 2, 3, 5] if high > 12 * low else [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, *range(3, 10)]
    if high < 1.7 * low:
        steps = [tenths / 10 for tenths in range(10, 100)]
    axis.yaxis.set_major_locator(LogLocator(subs=steps))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.yaxis.set_minor_locator(NullLocator())


def by_sentences(section: Section) -> Any:
    """Speed over the baseline's and tokens a second as bars, quartiles as whiskers; black ticks what FLOPs predict."""
    workloads = list(dict.fromkeys(row.workload for row in section.rows))
    figure = Figure(figsize=(13, 5), layout="constrained")
    ratios, rates = figure.subplots(1, 2)
    shades = colors_of(row.system for row in section.rows)
    width = 0.8 / len(shades)
    for place, (name, color) in enumerate(shades.items()):
        rows = [row for row in section.rows if row.system == name]
        left = [workloads.index(row.workload) - 0.4 + (place + 0.5) * width for row in rows]
        for axis, spreads in (ratios, [row.ratio for row in rows]), (rates, [row.rate for row in rows]):
            medians = [spread.median for spread in spreads]
            axis.bar(left, medians, 0.92 * width, yerr=whiskers(spreads), color=color, capsize=2, label=name)
        for x, row in zip(left, rows, strict=True):
            top = max(row.ratio.high, row.flop_ratio or 0)
            if row.flop_ratio:
                ratios.hlines(row.flop_ratio, x - width / 2, x + width / 2, color="black", linewidth=2)
            above = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center", "rotation": 90}
            ratios.annotate(f"{row.ratio.median:.2f}", (x, top), fontsize="small", **above)
    ratios.margins(y=0.2)
    for axis, label in (ratios, f"times as fast as {section.baseline}"), (rates, "target tokens a second"):
        axis.set_xticks(range(len(workloads)), workloads)
        axis.set_xlabel("length (subwords) x sentences of a batch")
        axis.set_ylabel(label)
    legend(figure, ratios, "whiskers: quartiles of the rounds; black lines: what FLOPs alone predict")
    return figure


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points (speed, quality) that no other point equals or beats in both, the fastest first."""
    best: list[tuple[float, float]] = []
    for point in sorted(set(points), reverse=True):
        if not best or point[1] > best[-1][1]:
            best.append(point)
    return best


def draw_frontier(rows: Sequence[Row], path: Path) -> None:
    """BLEU against speed: a panel a text that has references; there must be one."""
    scored = [row for row in rows if row.scores]
    texts = list(dict.fromkeys(row.corpus for row in scored))
    figure = Figure(figsize=(6.5 * len(texts), 5.5), layout="constrained")
    colors = colors_of(row.engine for row in scored)
    for axis, text in zip(figure.subplots(1, len(texts), squeeze=False)[0], texts, strict=True):
        points = {
            row.engine: (row.rate.median, row.scores["sacrebleu"]["score"])
            for row in scored
            if row.corpus == text and row.scores
        }
        for name, point in points.items():
            axis.plot(*point, "o", color=colors[name], label=name)
        best = zip(*frontier(list(points.values())), strict=True)
        axis.step(*best, where="post", color="0.6", zorder=0, label="best so far")
        axis.set(xlabel="sentences/s", ylabel="sacreBLEU", title=text)
        axis.set_xlim(left=0)
        axis.grid(alpha=0.3)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", fontsize="small")
    save(figure, path)
