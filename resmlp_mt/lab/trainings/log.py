"""Figures of fairseq-train's log (``--log-format json`` or ``simple``) over all runs of a training, and their curves.

Updates that a training repeats after an interruption count once, with their last figures.
"""

import contextlib
import json
import math
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, read_lines
from resmlp_mt.lab.drawing import colors_of, new_figure, plain_log, save

_LINE = re.compile(r"\| INFO \| (train_inner|train|valid) \| (.*)$")
_SIMPLE = re.compile(r"(\w+)[ =]([^\s,|=]+)(?=,| \||$)")
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
_PARAMETERS = re.compile(r"\| num\. shared model params: [0-9,]+ \(num\. trained: ([0-9,]+)\)")


@dataclass(frozen=True)
class TrainingFigures:
    perplexity: float  # on the validation set after the last epoch
    parameters: int  # trained parameters
    words_per_second: float  # target subwords with </s> a second of the clock, the median over the log


@dataclass(frozen=True)
class TrainingLog:
    """Figures by the number of updates and fairseq's names: losses in bits a subword, ``wps``, ``update`` (epochs)."""

    path: PathLike
    training: dict[float, dict[str, float]]
    validation: dict[float, dict[str, float]]
    epochs: dict[float, dict[str, float]]  # at the end of each
    parameters: int  # trained ones; 0 if the log does not have the number

    def check_updates(self, per_epoch: int) -> int:
        """Check that every epoch so far had ``per_epoch`` updates; return the last finished epoch (0: none)."""
        last = 0
        for updates, entry in self.epochs.items():
            last = int(entry.get("epoch", last))
            skipped = max(20, updates // 100) if "loss_scale" in entry else 0  # in fp16, as gradients were too large
            if not last * per_epoch - skipped <= updates <= last * per_epoch:
                raise UserError(
                    f"{self.path}: {updates:.0f} updates after epoch {last}, but the recipe's updates_per_epoch makes "
                    f"{last * per_epoch}: this row has other batches than the others, or updates_per_epoch is wrong"
                )
        return last

    def is_finite(self, epoch: int) -> bool:
        """Return whether the perplexity after this epoch is a number; fairseq's is infinite from 128 bits a subword."""
        entries = [entry for entry in self.validation.values() if entry.get("epoch") == epoch]
        return all("ppl" in entry for entry in entries[-1:])

    def figures(self, last_epoch: int) -> TrainingFigures:
        if not self.is_finite(last_epoch):
            raise UserError(f"{self.path}: perplexity after epoch {last_epoch} is not finite: train with a lower --lr")
        speeds = [entry["wps"] for entry in self.training.values() if "wps" in entry]
        perplexities = {entry.get("epoch"): entry["ppl"] for entry in self.validation.values() if "ppl" in entry}
        if not self.parameters or not speeds or last_epoch not in perplexities:
            raise UserError(f"{self.path}: not the log of a whole training of {last_epoch} epochs: train again")
        return TrainingFigures(perplexities[last_epoch], self.parameters, statistics.median(speeds))


def read_log(path: PathLike) -> TrainingLog:
    found: dict[str, dict[float, dict[str, float]]] = {"train_inner": {}, "valid": {}, "train": {}}
    parameters = 0
    for line in read_lines(path):
        if match := _PARAMETERS.search(line):
            parameters = int(match[1].replace(",", ""))
        if match := _LINE.search(line):
            entry = _numbers(*match.groups())
            if "num_updates" in entry:
                found[match[1]][entry["num_updates"]] = entry
    training, validation, epochs = (dict(sorted(each.items())) for each in found.values())
    return TrainingLog(path, training, validation, epochs, parameters)


def _numbers(kind: str, text: str) -> dict[str, float]:
    """Return a line's finite numbers by name; empty if it has none, or if a kill has cut the line."""
    values: dict[str, Any] = {}
    found: dict[str, float] = {}
    with contextlib.suppress(ValueError, RecursionError):
        values = json.loads(text) if text.startswith("{") else dict(_SIMPLE.findall(text))
    for name, value in values.items():
        with contextlib.suppress(TypeError, ValueError):
            found[name.removeprefix(f"{kind}_")] = float(value)
    return {name: number for name, number in found.items() if math.isfinite(number)}


def draw_curves(runs: Mapping[str, TrainingLog], path: PathLike, title: str = "") -> None:
    """Draw loss, perplexity, learning rate and speed of trainings, by name, over their updates."""
    for log in runs.values():
        if not log.training:
            raise UserError(
                f"{log.path}: no update is told in it: give what fairseq-train printed with --log-format simple or "
                "json and a --log-interval that is shorter than the training"
            )
    save(figure_of(runs, title), path)


def figure_of(runs: Mapping[str, TrainingLog], title: str = "") -> Any:
    """Draw a panel for each figure and a line for each training; lines of the same color have different styles."""
    rows = math.ceil(len(runs) / NAMES_A_LINE)
    figure = new_figure(13, 7 + 0.2 * rows)
    axes = figure.subplots(2, 3, sharex=True)
    colors = list(colors_of(runs).values())
    styles = [STYLES[colors[:number].count(color) % len(STYLES)] for number, color in enumerate(colors)]
    for axis, (part, name, label) in zip(axes.flat, PANELS, strict=True):
        for (run, curves), color, style in zip(runs.items(), colors, styles, strict=True):
            points = {updates: entry[name] for updates, entry in getattr(curves, part).items() if name in entry}
            axis.plot(
                points.keys(), points.values(), linestyle=style, marker="o" if part == "validation" else None,
                markersize=4, linewidth=1.2, color=color, label=run,
            )  # fmt: skip
        in_log = any(len(line.get_xdata()) for line in axis.lines)
        if name == "ppl" and in_log:
            plain_log(axis)
        if name == "wps":
            axis.set_ylim(bottom=0)
        if not in_log:
            axis.text(0.5, 0.5, "not in the log", transform=axis.transAxes, ha="center", color="0.4")
            axis.set_yticks([])
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    for axis in axes[1]:
        axis.set_xlabel("updates")
        axis.xaxis.set_major_formatter("{x:,.0f}")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=NAMES_A_LINE)
    if title:
        figure.suptitle(title)
    return figure
