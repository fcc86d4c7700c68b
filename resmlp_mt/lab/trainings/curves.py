"""Trainings as curves; needs matplotlib."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from resmlp_mt.common.colors import colors_of
from resmlp_mt.common.files import PathLike, atomic_write
from resmlp_mt.lab.trainings.log import Curves

PANELS = [
    ("training", "loss", "training loss (bits a subword)"),
    ("training", "ppl", "training perplexity (logarithmic)"),
    ("training", "lr", "learning rate"),
    ("validation", "loss", "validation loss (bits a subword)"),
    ("validation", "ppl", "validation perplexity (logarithmic)"),
    ("training", "wps", "target subwords / s (clock)"),
]
NAMES_A_LINE = 6
STYLES = "-", "--", ":", "-."


def draw_curves(runs: Mapping[str, Curves], path: PathLike, title: str = "") -> None:
    """Draw loss, perplexity, learning rate and speed of trainings, by name, over their updates."""
    with atomic_write(path, "wb") as stream:
        figure_of(runs, title).savefig(stream, format="png", dpi=110)


def figure_of(runs: Mapping[str, Curves], title: str = "") -> Figure:
    """One panel a figure, one line a training; where a color comes again, the line has another style."""
    rows = -(-len(runs) // NAMES_A_LINE)
    figure = Figure(figsize=(13, 7 + 0.2 * rows), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True)
    colors = list(colors_of(runs).values())
    styles = [STYLES[colors[:number].count(color) % len(STYLES)] for number, color in enumerate(colors)]
    for axis, (part, name, label) in zip(axes.flat, PANELS, strict=True):
        for (run, curves), color, style in zip(runs.items(), colors, styles, strict=True):
            points = [(updates, told[name]) for updates, told in getattr(curves, part).items() if name in told]
            marker = "o" if part == "validation" else None
            axis.plot(
                *(zip(*points, strict=True) if points else ([], [])),
                linestyle=style, marker=marker, markersize=4, linewidth=1.2, color=color, label=run,
            )  # fmt: skip
        if name == "ppl" and any(name in told for curves in runs.values() for told in getattr(curves, part).values()):
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=[1, 2, 5]))
            axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
            axis.yaxis.set_minor_locator(NullLocator())
        if name == "wps":
            axis.set_ylim(bottom=0)
        if not any(len(line.get_xdata()) for line in axis.lines):
            axis.text(0.5, 0.5, "not in the log", transform=axis.transAxes, ha="center", color="0.4")
            axis.set_yticks([])
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    for axis in axes[1]:
        axis.set_xlabel("updates")
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=NAMES_A_LINE)
    if title:
        figure.suptitle(title)
    return figure
