"""A study as a picture; the only module here that needs matplotlib."""

import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from resmlp_mt.lab.colors import colors_of
from resmlp_mt.lab.scaling.fit import FamilyFit, Fit, best_size, interval
from resmlp_mt.lab.scaling.grid import DIVERGED, Run
from resmlp_mt.lab.scaling.laws import Parameters, loss_of_compute, loss_of_sizes

BEYOND = 10
"""How many times further than the largest measured value a law is drawn, dashed."""

MARKERS = "o", "s", "^", "D", "v", "P"

Styles = Mapping[str, dict[str, Any]]
"""Color and marker of each family."""

Law = Callable[[Parameters, np.ndarray], np.ndarray]


def figure_of(families: Mapping[str, FamilyFit], runs: list[Run], title: str = "") -> Figure:
    """Loss over compute, parameters and data, and the best size of a model, each with the laws that were fitted."""
    figure = Figure(figsize=(12, 10.5), layout="constrained")
    axes = figure.subplots(2, 2)
    markers = zip(colors_of(families).items(), itertools.cycle(MARKERS), strict=False)
    styles: Styles = {name: {"color": color, "marker": marker} for (name, color), marker in markers}
    _compute(axes[0, 0], families, runs, styles)
    _losses(axes[0, 1], families, styles, side=0)
    axes[0, 1].set(xlabel="non-embedding parameters N (with the largest sample)", ylabel="lowest validation loss")
    _losses(axes[1, 0], families, styles, side=1)
    axes[1, 0].set(xlabel="target tokens of the sample D (with the largest model)", ylabel="lowest validation loss")
    _split(axes[1, 1], families, styles)
    losses = [loss for run in runs if run.end != DIVERGED for loss in run.losses]
    best = [run.best for fit in families.values() for run in fit.runs]
    for axis, shown in (axes[0, 0], losses), (axes[0, 1], best), (axes[1, 0], best):
        if shown:  # whatever the bands do
            room = 0.3 * (max(shown) - min(shown)) + 0.01
            axis.set_ylim(max(min(shown) - room, 0), max(shown) + room / 3)
    for axis in axes.flat:
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 3)))  # also where the range is short
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0e}".replace("e+0", "e").replace("e+", "e"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.grid(alpha=0.3, which="major")
        axis.spines[["top", "right"]].set_visible(False)
    lines = [Line2D([], [], **styles[name], label=name) for name in families]
    lines += [
        Line2D([], [], linewidth=0.7, label="each run", color="0.3"),
        Line2D([], [], linewidth=2.2, label="law, in the measured range (band: 95 %)", color="0.3"),
        Line2D([], [], linestyle="--", linewidth=1.5, label="law, extrapolated", color="0.3"),
    ]
    if any(run.end == DIVERGED for run in runs):
        lines.append(Line2D([], [], linestyle=":", marker="x", label="diverged, left out", color="0.3"))
    figure.legend(handles=lines, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title)
    return figure


def _compute(axis: Any, families: Mapping[str, FamilyFit], runs: list[Run], styles: Styles) -> None:
    for run in runs:
        style = {"linestyle": ":", "marker": "x", "markersize": 4} if run.end == DIVERGED else {"alpha": 0.5}
        axis.plot(run.compute, run.losses, color=styles[run.cell.family]["color"], linewidth=0.7, zorder=1, **style)
    for name, fit in families.items():
        if fit.frontier is not None:
            there = np.isfinite(fit.frontier.loss[0])
            points = fit.frontier.compute[there], fit.frontier.loss[0, there]
            axis.plot(*points, ".", markersize=4, color=styles[name]["color"], zorder=3)
        if not fit.why_not and fit.frontier is not None:
            measured = float(fit.frontier.compute[0]), float(fit.frontier.compute[-1])
            _law(axis, loss_of_compute, fit.compute, measured, styles[name]["color"])
    axis.set(xlabel="training compute (FLOPs; dots: the frontier)", ylabel="validation loss (nats a target token)")


def _losses(axis: Any, families: Mapping[str, FamilyFit], styles: Styles, side: int) -> None:
    """The lowest loss along N (side 0) or D (side 1), of the runs with the largest value of the other."""
    for name, fit in families.items():
        if not fit.runs:
            continue
        values = [(run.parameters.non_embedding, run.tokens) for run in fit.runs]
        largest = max(each[1 - side] for each in values)
        runs = zip(values, fit.runs, strict=True)
        at = sorted((each[side], run.best) for each, run in runs if each[1 - side] == largest)
        axis.plot(*zip(*at, strict=True), linestyle="none", markersize=5, **styles[name])
        if not fit.why_not:
            law, measured = partial(_along, side, largest), (at[0][0], at[-1][0])
            _law(axis, law, fit.sizes["non_embedding"], measured, styles[name]["color"])


def _along(side: int, fixed: float, named: Parameters, values: np.ndarray) -> np.ndarray:
    n, d = (values, fixed) if side == 0 else (fixed, values)
    return loss_of_sizes(named, *np.broadcast_arrays(n, d))


def _split(axis: Any, families: Mapping[str, FamilyFit], styles: Styles) -> None:
    for name, fit in families.items():
        if fit.why_not or fit.frontier is None:
            continue
        k, growth = fit.flops
        compute = [k * run.parameters.non_embedding**growth * run.tokens for run in fit.runs]
        law = partial(best_size, fit.flops)
        _law(axis, law, fit.sizes["non_embedding"], (min(compute), max(compute)), styles[name]["color"])
        sizes = np.array([run.parameters.non_embedding for run in fit.runs])
        there = np.isfinite(fit.frontier.loss[0])
        points = fit.frontier.compute[there], sizes[fit.frontier.run[0, there]]
        axis.plot(*points, linestyle="none", markersize=5, markerfacecolor="none", **styles[name])
    if axis.lines:
        axis.set_yscale("log")
        every = [run.parameters.non_embedding for fit in families.values() for run in fit.runs]
        axis.set_ylim(min(every) / 10, max(every) * 30)
    else:
        axis.text(0.5, 0.5, "too few runs for a law", transform=axis.transAxes, ha="center", color="0.4")
        axis.set_xlim(1e9, 1e12)
        axis.set_yticks([])
    axis.set(xlabel="training compute (FLOPs)", ylabel="best N: by the law (lines), on the frontier (open)")


def _law(axis: Any, law: Law, fit: Fit, measured: tuple[float, float], color: str) -> None:
    inside = np.geomspace(*measured, 60)
    beyond = np.geomspace(measured[1], BEYOND * measured[1], 30)
    for where, style, shade in (inside, "-", 0.15), (beyond, "--", 0.07):
        axis.plot(where, law(fit.one, where)[0], style, color=color, linewidth=2.2 if style == "-" else 1.5, zorder=2)
        with np.errstate(all="ignore"):
            drawn = law(fit.many, where)
        low, high = np.transpose([interval(np.where(np.isfinite(at), at, math.nan)) for at in drawn.T])
        axis.fill_between(where, low, high, color=color, alpha=shade, linewidth=0)
