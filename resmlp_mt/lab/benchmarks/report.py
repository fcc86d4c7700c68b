"""Measurements as tables for the terminal, as Markdown, and as pictures, which need matplotlib."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from resmlp_mt.common.progress import markdown_table, text_table
from resmlp_mt.lab.benchmarks.measuring import Measurement, Quartiles
from resmlp_mt.lab.drawing import colors_of, new_figure, plain_log, save
from resmlp_mt.lab.machine import facts

EXPLANATION = """\
Every figure is a median, with the quartiles in brackets. Systems take turns on the same batches. "Times as fast" is a
ratio formed round by round from measurements that follow each other; "FLOPs alone" is what it would be if only matrix
products took time. Tokens are target subwords with `</s>`, padding not counted. Memory is the most that a process takes
for model, optimizer and batch; "kB a token" is that divided by the tokens of the batch. Generation forces every
translation of a batch to the same length. In pictures over lengths the dashed line is the time a token if it grew from
the shortest length on as the FLOPs of a token do. A measured line above it: time grows faster than FLOPs."""

Row = TypeVar("Row")
Cells = list[list[str]]


@dataclass(frozen=True)
class Section:
    title: str
    kind: str
    by: str  # what its picture is drawn over: "length" or "sentences"
    baseline: str
    settings: dict[str, str]
    machine: dict[str, str]
    notes: list[str] = field(default_factory=list)
    rows: list[Measurement] = field(default_factory=list)


def cells(rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str]]) -> Cells:
    """Return a header and a line for each row; columns that would be empty are left out."""
    filled = [[name, *map(show, rows)] for name, show in columns.items()]
    return [list(line) for line in zip(*(column for column in filled if any(column[1:])), strict=True)]


def shown(value: float | None, digits: int = 0) -> str:
    """Return a number as text, or an empty text if none was measured."""
    return "" if value is None else f"{value:,.{digits}f}"


def table(section: Section) -> Cells:
    theirs = {row.workload: row.memory or math.inf for row in section.rows if row.system == section.baseline}
    columns: dict[str, Callable[[Measurement], str]] = {
        "length x sentences": lambda row: row.workload,
        "system": lambda row: row.system,
        "tokens/s": lambda row: f"{row.rate:,.0f}",
        f"times as fast as {section.baseline}": lambda row: f"{row.ratio:,.2f}",
        "FLOPs alone": lambda row: shown(row.flop_ratio, 2),
        "sentences/s": lambda row: f"{row.rate.median / row.length:.2f}" if section.kind == "generation" else "",
        "p50 ms": lambda row: shown(row.latency and 1e3 * row.latency[0], 1),
        "p99 ms": lambda row: shown(row.latency and 1e3 * row.latency[1], 1),
        "peak MB": lambda row: shown(row.memory and row.memory / 1e6),
        f"of {section.baseline}'s": lambda row: shown(row.memory and row.memory / theirs[row.workload], 2),
        "kB a token": lambda row: shown(row.memory_per_token and row.memory_per_token / 1e3),
    }
    return cells(section.rows, columns)


def as_text(section: Section) -> str:
    head = [section.title, facts(section.settings), facts(section.machine), *section.notes]
    return "\n".join(head) + "\n\n" + text_table(table(section), left=2)


def as_markdown(about: Mapping[str, str], sections: Sequence[Section], pictures: Sequence[str]) -> str:
    """Return a document; ``pictures`` are paths relative to it, one for each section, or none."""
    parts = ["# Benchmarks", f"Made on {about['date']} by", f"    {about['command']}", EXPLANATION]
    for number, section in enumerate(sections):
        parts += [f"## {section.title}", f"{facts(section.settings)}.", f"On {facts(section.machine)}."]
        parts += [*section.notes, markdown_table(table(section))]
        if pictures:
            parts.append(f"![{section.title}]({pictures[number]})")
    return "\n\n".join(parts) + "\n"


def draw(section: Section, path: Path) -> None:
    figure = by_length(section) if section.by == "length" else by_sentences(section)
    figure.suptitle(section.title)
    save(figure, path)


def legend(figure: Any, axis: Any, title: str) -> None:
    """Put the names below all panels, since they can be long, with a title that explains the marks."""
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small", title=title)


def by_length(section: Section) -> Any:
    """Draw speed relative to the baseline, and time and memory per token, against length."""
    first = {row.system: row for row in sorted(section.rows, key=lambda row: -row.length)}  # each system's shortest

    def time_per_token(row: Measurement) -> Quartiles:
        return Quartiles(1e6 / row.rate.median, 1e6 / row.rate.high, 1e6 / row.rate.low)  # high rates are short times

    def predicted_time(row: Measurement) -> float | None:
        shortest = first[row.system]
        return 1e6 / shortest.rate.median * row.flops / shortest.flops if row.flops and shortest.flops else None

    # a title, a figure of a row, the prediction of FLOPs for it
    panels: list[tuple[str, Callable[[Measurement], Any], Callable[[Measurement], Any] | None]] = [
        (f"times as fast as {section.baseline}", lambda row: row.ratio, lambda row: row.flop_ratio),
        ("time a token (microseconds)", time_per_token, predicted_time),
        ("peak memory a token (kB)", lambda row: row.memory_per_token and row.memory_per_token / 1e3, None),
        ("peak memory (MB)", lambda row: row.memory and row.memory / 1e6, None),
    ]
    panels = [panel for panel in panels if any(map(panel[1], section.rows))]
    shades = colors_of(row.system for row in section.rows)
    deep = math.ceil(len(panels) / 2)
    figure = new_figure(13, 4.5 * deep)
    axes = figure.subplots(deep, 2)
    lengths = sorted({row.length for row in section.rows})
    for axis, (title, value_of, predicted) in zip(axes.flat, panels, strict=True):
        for (name, color), marker in zip(shades.items(), itertools.cycle("osD^vP*X")):
            rows = sorted((row for row in section.rows if row.system == name), key=lambda row: row.length)
            values = {row.length: value for row in rows if (value := value_of(row))}
            spreads = [value if isinstance(value, Quartiles) else Quartiles.of([value]) for value in values.values()]
            axis.errorbar(
                list(values), [spread.median for spread in spreads], whiskers(spreads), capsize=2, elinewidth=1,
                markersize=5, color=color, marker=marker, label=name,
            )  # fmt: skip
            if predicted:
                axis.plot([row.length for row in rows], list(map(predicted, rows)), "--", color=color, linewidth=1)
        axis.set_xscale("log", base=2)
        axis.set_xticks(lengths, map(str, lengths))
        axis.set_xticks([], minor=True)
        plain_log(axis)
        axis.set(xlabel="length (subwords, logarithmic)", ylabel=f"{title}, logarithmic")
        axis.grid(alpha=0.3)
    legend(figure, axes.flat[0], "whiskers: quartiles of the rounds; dashed: what FLOPs alone predict")
    return figure


def whiskers(spreads: list[Quartiles]) -> list[list[float]]:
    return [[each.median - each.low for each in spreads], [each.high - each.median for each in spreads]]


def by_sentences(section: Section) -> Any:
    """Draw bars of speed relative to the baseline and of tokens per second; black lines: what FLOPs predict."""
    workloads = list(dict.fromkeys(row.workload for row in section.rows))
    figure = new_figure(13, 5)
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
            if row.flop_ratio:
                ratios.hlines(row.flop_ratio, x - width / 2, x + width / 2, color="black", linewidth=2)
            above = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center", "rotation": 90}
            top = max(row.ratio.high, row.flop_ratio or 0)
            ratios.annotate(f"{row.ratio.median:.2f}", (x, top), fontsize="small", **above)
    ratios.margins(y=0.2)
    for axis, label in (ratios, f"times as fast as {section.baseline}"), (rates, "target tokens a second"):
        axis.set_xticks(range(len(workloads)), workloads)
        axis.set(xlabel="length (subwords) x sentences of a batch", ylabel=label)
    legend(figure, ratios, "whiskers: quartiles of the rounds; black lines: what FLOPs alone predict")
    return figure
