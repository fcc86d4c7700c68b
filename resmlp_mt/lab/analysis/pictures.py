"""Pictures of mixing matrices (Touvron et al. 2021, figures 2, 3, B.1 and B.2, for sequences); needs matplotlib."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from torch import Tensor

from resmlp_mt.lab.analysis.matrices import Array, MixingMatrix, Sparsity, TextBand, profiles
from resmlp_mt.lab.drawing import PLAIN, new_figure

MOST_COLUMNS = 6
UNREAD = "0.85"  # what a causal A does not read
WEIGHTS = LinearSegmentedColormap.from_list(  # zero is white; without the ends, which are both nearly black
    "weights", colormaps["RdBu_r"](np.linspace(0.1, 0.9, 256))
).with_extremes(bad=UNREAD)
BLUES = colormaps["Blues"]
RELATIVE = "relative position j - i (subwords)"


def overview(mixings: Sequence[MixingMatrix], size: float = 2.5) -> Figure:
    """Draw every A on one scale, each in a panel of ``size`` inches, with the heads of a layer side by side."""
    figure, axes = _panels(mixings, size)
    scale = _scale(mixings)
    for axis, mixing in zip(axes, mixings, strict=True):
        _show(axis, mixing, scale, size + 3.5)
        axis.set_title(mixing.name)
    _name_axes(figure, mixings)
    _color_bar(figure, axes, scale, "weight")
    return figure


def layer(mixing: MixingMatrix) -> Figure:
    figure = overview([mixing], 6.25)
    figure.set_figwidth(7.7)  # A is a square; the names of its axes need room next to it
    return figure


def profile(mixings: Sequence[MixingMatrix]) -> Figure:
    """Draw the mean of each diagonal of each A on one scale: a line for each head; with one head, also its spread."""
    figure, axes = _panels(mixings, 2.7)
    heads = max(len(mixing.weights) for mixing in mixings)
    # no yellow, which is hardly seen on white
    shades = LinearSegmentedColormap.from_list("heads", colormaps["viridis"](np.linspace(0, 0.88, 256)))
    color_of = ScalarMappable(BoundaryNorm(np.arange(0.5, heads + 1), 256), shades)
    for axis in axes[1:]:
        axis.sharey(axes[0])
    for axis, mixing in zip(axes, mixings, strict=True):
        found = profiles(mixing)
        for head, each in enumerate(found, start=1):
            color = PLAIN[0] if heads == 1 else color_of.to_rgba(np.array([head]))[0]
            axis.plot(each.offsets, each.mean, color=color, linewidth=1.5 if heads == 1 else 0.8)
            if heads == 1:
                low, high = each.mean - each.spread, each.mean + each.spread
                axis.fill_between(each.offsets, low, high, color=color, alpha=0.25, linewidth=0)
        explained = [each.explained for each in found]
        range_of = f" ({min(explained):.0%} - {max(explained):.0%})" if len(found) > 1 else ""
        axis.set_title(f"{mixing.name}\ndiagonals explain {np.mean(explained):.0%}{range_of}", fontsize="small")
        for line in axis.axhline, axis.axvline:
            line(0, color="0.6", linewidth=0.8, zorder=0)
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axis.tick_params(labelsize="small")
        axis.grid(alpha=0.25)
    if heads > 1:
        ticks = range(1, heads + 1, max(heads // 8, 1))
        figure.colorbar(color_of, ax=axes, label="head", ticks=list(ticks), aspect=40, shrink=0.8)
    figure.supxlabel(RELATIVE)
    figure.supylabel("mean weight of the diagonal" + ("" if heads > 1 else "; band: standard deviation"))
    return figure


def band(bands: Sequence[TextBand]) -> Figure:
    """Draw how each head weighs its neighbours: the mean over a text and, next to it, the standard deviation."""
    parts = [(each, kind, part) for each in bands for kind, part in (("mean", each.mean), ("spread", each.spread))]
    figure, axes = _panels([each for each, _, _ in parts], 2.5)
    largest = max(float(part.abs().max()) for _, _, part in parts) or 1.0
    scale = Normalize(-largest, largest)
    for axis, (each, kind, part) in zip(axes, parts, strict=True):
        _show_offsets(axis, part, each.offsets, 1, WEIGHTS, scale)
        axis.set_title(f"{each.name}, {kind}", fontsize="small")
        axis.yaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    figure.supxlabel(RELATIVE)
    figure.supylabel("head")
    _color_bar(figure, axes, scale, "weight")
    return figure


def band_of_a_sentence(bands: Sequence[TextBand]) -> Figure:
    """Draw how much each position of a sentence reads from its neighbours: the root mean square over the heads."""
    sides = [[each for each in bands if each.side == side] for side in dict.fromkeys(each.side for each in bands)]
    columns = max(map(len, sides))
    tall = [0.22 * len(side[0].tokens) + 1.0 for side in sides]
    figure: Figure = new_figure(2.0 * columns + 2.4, sum(tall))
    rows: list[Any] = [[each.name for each in side] + ["."] * (columns - len(side)) for side in sides]
    axes = figure.subplot_mosaic(rows, height_ratios=tall)
    sizes = {each.name: each.sentence.square().mean(1).sqrt() for each in bands}
    scale = Normalize(0, max(float(size.max()) for size in sizes.values()) or 1.0)
    firsts = [side[0].name for side in sides]
    for each in bands:
        axis = axes[each.name]
        _show_offsets(axis, sizes[each.name], each.offsets, 0, BLUES, scale)
        axis.set_title(each.name, fontsize="medium")
        tokens = [token[:20] if each.name in firsts else "" for token in each.tokens]
        axis.set_yticks(range(len(tokens)), tokens, parse_math=False)
    figure.supxlabel(RELATIVE)
    bar = figure.colorbar(ScalarMappable(scale, BLUES), ax=list(axes.values()), shrink=0.8, aspect=40)
    bar.set_label("size of the weights, over the heads")
    return figure


def _show_offsets(
    axis: Axes, values: Tensor, offsets: Sequence[int], first: int, colors: Colormap, scale: Normalize
) -> None:
    """Draw a row for each head or position, counted from ``first``, and a column for each relative position."""
    extent = (offsets[0] - 0.5, offsets[-1] + 0.5, first + len(values) - 0.5, first - 0.5)
    axis.imshow(values.numpy(), cmap=colors, norm=scale, extent=extent, interpolation="nearest", aspect="auto")
    axis.xaxis.set_major_locator(MaxNLocator(7, integer=True, min_n_ticks=1))
    axis.tick_params(labelsize="small")


def sparsity(found: Sequence[Sparsity]) -> Figure:
    """The share of small weights of each matrix, layer by layer."""
    sides = list(dict.fromkeys(each.side for each in found))
    figure: Figure = new_figure(4.6 * len(sides), 4.6)
    axes = figure.subplots(1, len(sides), sharey=True, squeeze=False)[0]
    names = list(dict.fromkeys(each.matrix for each in found))
    labels = {"A": "A (mixing)", "W1": "W1 (MLP)", "W2": "W2 (MLP)"}
    for axis, side in zip(axes, sides, strict=True):
        for number, name in enumerate(names):
            shares = {each.layer: each.share for each in found if (each.side, each.matrix) == (side, name)}
            label = labels.get(name, f"{name} (cross-attention)")
            style = "o-" if name == "A" else "s--" if name.startswith("W") else "^:"
            axis.plot([*shares], [*shares.values()], style, color=PLAIN[number % len(PLAIN)], label=label)
        axis.set_title(side)
        axis.set_xlabel("layer")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axis.set_ylim(0, max(0.5, 1.1 * max(each.share for each in found)))
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("weights below 5% of the largest")
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
    return figure


def change(series: Sequence[MixingMatrix], labels: Sequence[str]) -> Figure:
    """Draw one A in several checkpoints, oldest first; below each, its change since the checkpoint before."""
    steps = [replace(after, weights=after.weights - before.weights) for before, after in itertools.pairwise(series)]
    scale, step_scale = _scale(series), _scale(steps)
    figure: Figure = new_figure(2.1 * len(series) + 2.0, 5.3)
    axes = figure.subplots(2, len(series))
    axes[1, 0].set_axis_off()
    for axis, mixing, label in zip(axes[0], series, labels, strict=True):
        axis.set_title(label, fontsize="small")
        _show(axis, mixing, scale)
    for axis, step, before in zip(axes[1, 1:], steps, series, strict=False):
        relative = float(step.weights.norm() / before.weights.norm().clamp_min(1e-12))
        axis.set_title(f"changed by {relative:.1%}", fontsize="small")
        _show(axis, step, step_scale)
    _name_axes(figure, series)
    _color_bar(figure, axes.flat, scale, "weight")
    _color_bar(figure, axes.flat, step_scale, "change of the weight (lower row)")
    figure.suptitle(series[0].name)
    return figure


def _panels(mixings: Sequence[MixingMatrix | TextBand], size: float) -> tuple[Figure, list[Axes]]:
    """Return a figure and a panel for each matrix or band; the decoder starts a new row."""
    sides: dict[str, list[Any]] = {}
    for number, mixing in enumerate(mixings):
        sides.setdefault(mixing.side, []).append(number)
    columns = min(MOST_COLUMNS, max(map(len, sides.values())))
    rows = [side[start : start + columns] for side in sides.values() for start in range(0, len(side), columns)]
    figure: Figure = new_figure(size * columns + 0.9, (size + 0.2) * len(rows) + 0.2)
    axes = figure.subplot_mosaic([row + [-1] * (columns - len(row)) for row in rows], empty_sentinel=-1)
    return figure, [axes[number] for number in range(len(mixings))]


def _scale(mixings: Sequence[MixingMatrix]) -> Normalize:
    """Return a symmetric scale, white at zero; the largest 0.5% of the weights may lie beyond it."""
    sizes = np.concatenate([mixing.weights[:, mixing.mask].abs().flatten().numpy() for mixing in mixings])
    largest = float(np.quantile(sizes, 0.995)) or 1.0
    return Normalize(-largest, largest)


def _show(axis: Axes, mixing: MixingMatrix, scale: Normalize, fontsize: float = 6) -> None:
    """Draw A, or its heads with their numbers; positions are counted from 1."""
    axis.tick_params(labelsize="small")
    heads, length = len(mixing.weights), mixing.length
    pictures = np.where(mixing.mask.numpy(), mixing.weights.numpy(), np.nan)
    if heads == 1:
        extent = (0.5, length + 0.5, length + 0.5, 0.5)
        axis.imshow(pictures[0], cmap=WEIGHTS, norm=scale, extent=extent, interpolation="nearest")
        for each in axis.xaxis, axis.yaxis:
            each.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=2))
        return
    tiled, corners = _mosaic(WEIGHTS(scale(np.ma.masked_invalid(pictures))))
    axis.imshow(tiled, interpolation="nearest")
    for head, (row, column) in enumerate(corners, start=1):
        axis.text(column + length / 2, row - 1, str(head), fontsize=fontsize, ha="center", va="bottom")
    (top, left), bottom = corners[0], corners[-1][0]
    axis.set_xticks([left, left + length - 1], ["1", str(length)])
    axis.set_yticks([top, top + length - 1] if bottom == top else [bottom, bottom + length - 1], ["1", str(length)])
    axis.spines[:].set_visible(False)


def _mosaic(pictures: Array) -> tuple[Array, list[tuple[int, int]]]:
    """Tile H x T x T x 4 into one picture with room above each head for its number; also return upper left corners."""
    heads, length, _, channels = pictures.shape
    columns = math.ceil(math.sqrt(heads))
    gap, room = max(length // 12, 1), max(length // 3, 1)
    places = [divmod(head, columns) for head in range(heads)]
    corners = [(row * (length + room) + room, column * (length + gap)) for row, column in places]
    tiled = np.zeros((corners[-1][0] + length, columns * (length + gap) - gap, channels))
    for picture, (top, left) in zip(pictures, corners, strict=True):
        tiled[top : top + length, left : left + length] = picture
    return tiled, corners


def _name_axes(figure: Figure, mixings: Iterable[MixingMatrix]) -> None:
    several = any(len(mixing.weights) > 1 for mixing in mixings)
    figure.supxlabel("position j that is read" + (", in each head (numbered)" if several else ""))
    figure.supylabel("position i that reads")


def _color_bar(figure: Figure, axes: Iterable[Axes], scale: Normalize, label: str) -> None:
    mappable = ScalarMappable(scale, WEIGHTS)
    bar = figure.colorbar(mappable, ax=list(axes), extend="both", shrink=0.8, aspect=40, label=label)
    bar.ax.tick_params(labelsize="small")
