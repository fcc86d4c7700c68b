"""Trainings as curves, and the color that a system has in all pictures; needs matplotlib."""

import itertools
from collections.abc import Iterable, Mapping

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

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

# Told apart by color-blind eyes too: the colors of Okabe and Ito, and of Tol
RESMLP = "#0072B2"
SYSTEMS = {  # by the name that a picture has for it, in lower case; architectures and names of rows
    **dict.fromkeys(["resmlp_transformer", "resmlp-6", "resmlp", "resmlp6", "paper"], RESMLP),
    "transformer": "#4D4D4D",
    **dict.fromkeys(["resmlp_transformer:inference_precision=bf16", "heads", "16-heads-relative"], "#56B4E9"),
    **dict.fromkeys(["resmlp_transformer:inference_precision=int8", "resmlp-12", "resmlp12"], "#009E73"),
    "ctranslate2:compute_type=float32": "#E69F00",
    "ctranslate2:compute_type=int8": "#D55E00",
    "lightconv": "#CC79A7",
    **dict.fromkeys(["fconv", "convs2s"], "#999933"),
    "lstm": "#882255",
}
# For systems that are not listed, in the order of their appearance
OTHERS = "#AA4499", "#44AA99", "#DDCC77", "#332288", "#661100", "#117733", "#CC6677"
# For what is no system
PLAIN = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"


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


def colors_of(names: Iterable[str]) -> dict[str, str]:
    """The color of each system of a picture; ``NAME, seed 1`` has NAME's, ``NAME, 1 process`` a lighter one of it."""
    others, found, colors = itertools.cycle(OTHERS), {}, dict(SYSTEMS)
    for name in dict.fromkeys(names):
        system, _, processes = name.lower().partition(", ")
        if system not in colors:
            colors[system] = next(others)
        found[name] = _lighter(colors[system]) if processes == "1 process" else colors[system]
    return found


def _lighter(color: str) -> str:
    """Half-way to white."""
    return "#" + "".join(f"{(int(color[at : at + 2], 16) + 255) // 2:02X}" for at in (1, 3, 5))
