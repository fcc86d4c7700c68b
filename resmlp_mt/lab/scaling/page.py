"""``scale``: train what is not finished; the study as Markdown, as JSON and as a picture."""

import argparse
import datetime
import itertools
import math
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, check_outputs, read_lines, write_json
from resmlp_mt.common.progress import markdown_table, text_table
from resmlp_mt.data.binarized import lengths, read_dictionary
from resmlp_mt.lab import drawing
from resmlp_mt.lab.machine import describe, facts
from resmlp_mt.lab.scaling import fit as fits
from resmlp_mt.lab.scaling import grid
from resmlp_mt.lab.scaling.laws import Parameters, loss_of_compute, loss_of_sizes
from resmlp_mt.lab.trainings.queue import check_reference, duration, known, train_all

FILES = "scaling.png", "scaling.md", "scaling.json"

Table = list[list[str]]

BEYOND = 10  # how many times further than the largest measured value a law is drawn, dashed
MARKERS = "o", "s", "^", "D", "v", "P"

Styles = Mapping[str, dict[str, Any]]  # color and marker of each family
Law = Callable[[Parameters, np.ndarray], np.ndarray]

NOTES = (
    "Loss: cross entropy of the validation set, not smoothed, in nats a target subword and in nats a character of the "
    "running text. Compute: three times the forward FLOPs (matrix products) times the target subwords trained on, "
    "padding left out. N: parameters of encoder and decoder without embeddings and output projection. D: target "
    "subwords of the sample; those of later epochs are compute, not data.",
    "N has mixing matrices (A, with its bias and relative term), as stored.",
    "L(N, D) = E + A N^-alpha + B D^-beta is fitted to the lowest loss of each run, beside it a law in which N and D "
    "act together, ((N_c / N)^(alpha / beta) + D_c / D)^beta (Kaplan et al. 2020), and L(C) = a (b + C)^-alpha + E to "
    "the frontier: the lowest loss that any curve has reached with that compute. Huber's loss on log L, a grid of "
    f"starts. Brackets: {fits.CONFIDENCE:.0%} intervals of a bootstrap over runs, a run's points together, made wider "
    "by sqrt(runs / (runs - constants)). C^N* and C^D* are where L(N, D) is least for a compute, if each token is read "
    "once.",
)
"""What the figures are."""


@dataclass(frozen=True)
class Study:
    title: str
    planned: int  # cells
    runs: list[grid.Run]  # those that are finished
    families: Mapping[str, fits.FamilyFit]
    tokens_a_character: float  # of the validation set: target subwords with </s> over characters of running text
    about: Mapping[str, str]  # what else to tell, such as the command

    @cached_property
    def differences(self) -> dict[str, fits.Constants]:
        return fits.differences(self.families)

    @property
    def diverged(self) -> list[str]:
        return [run.cell.name for run in self.runs if run.end == grid.DIVERGED]

    def notes(self) -> list[str]:
        """How much is finished, which families cannot be fitted, and what the figures are."""
        finished = f"{len(self.runs)} of {self.planned} trainings are finished."
        if self.diverged:
            finished += f" {len(self.diverged)} diverged and are left out: {', '.join(self.diverged)}."
        return [finished, *(f"{name}: {fit.why_not}." for name, fit in self.families.items() if fit.why_not), *NOTES]

    def tables(self) -> dict[str, Table]:
        fitted = {name: fit for name, fit in self.families.items() if not fit.why_not}
        tables = {"The runs": self._runs()}
        tables["L(N, D)"] = _table({name: fit.sizes.constants for name, fit in fitted.items()})
        together = {name: fit.together.constants for name, fit in fitted.items()}
        tables["L(N, D) where N and D act together"] = _table(together)
        tables["L(C) on the frontier"] = _table({name: fit.compute.constants for name, fit in fitted.items()})
        heading = ["left out", "runs", "error of the predicted loss", "where N and D act together"]
        tables["Runs that a fit has not seen"] = [heading] + [
            [f"{name}, {each.what}", str(each.runs), f"{each.error:.2%}", f"{each.error_together:.2%}"]
            for name, fit in fitted.items()
            for each in fit.held_out
        ]
        tables["Differences of exponents"] = _table(self.differences)
        return {heading: rows for heading, rows in tables.items() if len(rows) > 1}

    def _runs(self) -> Table:
        heading = ["cell", "N", "encoder", "decoder", "mixing", "D", "FLOPs/token", "nats/token", "nats/character"]
        rows = [[*heading, "FLOPs in all", "processor time", "ended by"]]
        for run in self.runs:
            of = run.parameters
            counts = (f"{count:,}" for count in (of.non_embedding, of.encoder, of.decoder, of.mixing, run.tokens))
            found = ["none"] * 3
            if run.losses:
                losses = run.best, run.best * self.tokens_a_character
                found = [*(f"{loss:.3f}" for loss in losses), f"{run.compute[-1]:.3g}"]
            took = duration(run.processor_seconds)
            rows.append([run.cell.name, *counts, f"{run.flops:.3g}", *found, took, run.end])
        return rows

    def as_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            **self.about,
            "cells planned": self.planned,
            "diverged": self.diverged,
            "tokens a character": self.tokens_a_character,
            "tables": {
                heading: {"columns": columns, "rows": {name: cells for name, *cells in rows}}
                for heading, ((_, *columns), *rows) in self.tables().items()
            },
            "families": {name: _family(fit) for name, fit in self.families.items()},
            "differences": _constants(self.differences),
            "runs": [asdict(run) | {"compute": run.compute} for run in self.runs],
        }

    def as_markdown(self) -> str:
        parts = [f"# {self.title}", f"![{self.title}]({FILES[0]})", *self.notes()]
        for heading, rows in self.tables().items():
            parts += [f"## {heading}", markdown_table(rows)]
        return "\n\n".join([*parts, f"{facts(self.about)}."]) + "\n"


def _table(rows: Mapping[str, fits.Constants]) -> Table:
    heading = next(iter(rows.values()), {})
    return [["", *heading], *([name, *map(str, row.values())] for name, row in rows.items())]


def _constants(rows: Mapping[str, fits.Constants]) -> dict[str, dict[str, dict[str, float | None]]]:
    return {name: {of: each.as_json() for of, each in row.items()} for name, row in rows.items()}


def _family(fit: fits.FamilyFit) -> dict[str, Any]:
    if fit.why_not:
        return {"runs": len(fit.runs), "not fitted": fit.why_not}
    points = fits.points_of(fit.runs)
    return {
        "runs": len(fit.runs),
        **_constants({"L(N, D)": fit.sizes.constants, "L(C)": fit.compute.constants}),
        "residual": fit.sizes.residual,
        **_constants({"N and D together": fit.together.constants}),
        "residual of N and D together": fit.together.residual,
        "held out": [asdict(each) for each in fit.held_out],
        "ranges": {
            "N": float(points.parameters.max() / points.parameters.min()),
            "D": float(points.tokens.max() / points.tokens.min()),
        },
    }


def save(study: Study, out: Path) -> None:
    """Write the picture (with matplotlib), the Markdown and the JSON."""
    picture, markdown, as_json = (out / name for name in FILES)
    if drawing.wants_pictures():
        with atomic_write(picture, "wb") as stream:
            stream.write(drawn(study))
    with atomic_write(markdown) as stream:
        stream.write(study.as_markdown())
    write_json(as_json, study.as_json())


def drawn(study: Study) -> bytes:
    """The picture as PNG, 1,200 pixels wide."""
    return drawing.png(figure_of(study.families, study.runs, study.title), dpi=100)


def figure_of(families: Mapping[str, fits.FamilyFit], runs: list[grid.Run], title: str = "") -> Any:
    """Loss over compute, parameters and data, and the best size of a model, each with the laws that were fitted."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, NullFormatter

    figure = drawing.new_figure(12, 10.5)
    axes = figure.subplots(2, 2)
    markers = zip(drawing.colors_of(families).items(), itertools.cycle(MARKERS), strict=False)
    styles: Styles = {name: {"color": color, "marker": marker} for (name, color), marker in markers}
    _draw_compute(axes[0, 0], families, runs, styles)
    _draw_losses(axes[0, 1], families, styles, side=0)
    axes[0, 1].set(xlabel="non-embedding parameters N (with the largest sample)", ylabel="lowest validation loss")
    _draw_losses(axes[1, 0], families, styles, side=1)
    axes[1, 0].set(xlabel="target tokens of the sample D (with the largest model)", ylabel="lowest validation loss")
    _draw_split(axes[1, 1], families, styles)
    losses = [loss for run in runs if run.end != grid.DIVERGED for loss in run.losses]
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
    if any(run.end == grid.DIVERGED for run in runs):
        lines.append(Line2D([], [], linestyle=":", marker="x", label="diverged, left out", color="0.3"))
    figure.legend(handles=lines, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title)
    return figure


def _draw_compute(axis: Any, families: Mapping[str, fits.FamilyFit], runs: list[grid.Run], styles: Styles) -> None:
    for run in runs:
        style = {"linestyle": ":", "marker": "x", "markersize": 4} if run.end == grid.DIVERGED else {"alpha": 0.5}
        axis.plot(run.compute, run.losses, color=styles[run.cell.family]["color"], linewidth=0.7, zorder=1, **style)
    for name, fit in families.items():
        if fit.frontier is not None:
            there = np.isfinite(fit.frontier.loss[0])
            points = fit.frontier.compute[there], fit.frontier.loss[0, there]
            axis.plot(*points, ".", markersize=4, color=styles[name]["color"], zorder=3)
        if not fit.why_not and fit.frontier is not None:
            measured = float(fit.frontier.compute[0]), float(fit.frontier.compute[-1])
            _draw_law(axis, loss_of_compute, fit.compute, measured, styles[name]["color"])
    axis.set(xlabel="training compute (FLOPs; dots: the frontier)", ylabel="validation loss (nats a target token)")


def _draw_losses(axis: Any, families: Mapping[str, fits.FamilyFit], styles: Styles, side: int) -> None:
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
            _draw_law(axis, law, fit.sizes, measured, styles[name]["color"])


def _along(side: int, fixed: float, named: Parameters, values: np.ndarray) -> np.ndarray:
    n, d = (values, fixed) if side == 0 else (fixed, values)
    return loss_of_sizes(named, *np.broadcast_arrays(n, d))


def _draw_split(axis: Any, families: Mapping[str, fits.FamilyFit], styles: Styles) -> None:
    for name, fit in families.items():
        if fit.why_not or fit.frontier is None:
            continue
        k, growth = fit.flops
        compute = [k * run.parameters.non_embedding**growth * run.tokens for run in fit.runs]
        law = partial(fits.best_size, fit.flops)
        _draw_law(axis, law, fit.sizes, (min(compute), max(compute)), styles[name]["color"])
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


def _draw_law(axis: Any, law: Law, fit: fits.Fit, measured: tuple[float, float], color: str) -> None:
    inside = np.geomspace(*measured, 60)
    beyond = np.geomspace(measured[1], BEYOND * measured[1], 30)
    for where, style, shade in (inside, "-", 0.15), (beyond, "--", 0.07):
        axis.plot(where, law(fit.one, where)[0], style, color=color, linewidth=2.2 if style == "-" else 1.5, zorder=2)
        with np.errstate(all="ignore"):
            every = law(fit.many, where)
        low, high = np.transpose([fits.interval(np.where(np.isfinite(at), at, math.nan)) for at in every.T])
        axis.fill_between(where, low, high, color=color, alpha=shade, linewidth=0)


def run(args: argparse.Namespace) -> None:
    recipe = grid.read_scaling_recipe(args.recipe)
    retrain = known([cell.name for cell in grid.cells_of(recipe)], args.retrain, "cell")
    out = args.out or args.work / "scaling" / args.recipe.stem
    reference, data = args.work / recipe.reference, args.work / recipe.data
    check_reference(reference)
    plans = grid.plan(recipe, data)
    if args.dry_run:
        print(text_table(grid.plan_table(plans)))
        return
    check_outputs([out, *(out / name for name in FILES)], [args.recipe, reference, data])
    text, target = list(read_lines(reference)), lengths(data, "valid", recipe.langs)[1]
    if len(text) != len(target) or not any(text):
        raise UserError(f"{reference}: not the text of the validation set, which has {len(target):,} sentences")
    cells = grid.cell_folders(recipe, plans, out, data)
    failed: list[str] = []
    if not args.table:
        failed = train_all(cells, args.jobs, retrain, {cell.name: cell.plan.seconds for cell in cells})
    vocabulary = len(read_dictionary(data / f"dict.{recipe.langs[1]}.txt"))
    runs = [grid.read_run(cell, vocabulary) for cell in cells if cell.finished]
    if not runs:
        raise UserError(f"{recipe.title}: no cell is finished: see the logs of the cells")
    families = fits.fit_families(runs, list(recipe.families))
    tokens_a_character = int(target.sum()) / sum(map(len, text))
    trained = sorted({facts(cell.trained) for cell in cells if cell.finished})
    about = {
        "command": shlex.join(["resmlp-mt", "scale", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "machine": describe(threads=1)["processor"],
        "trained": "; ".join(trained[:3]),
    }
    study = Study(recipe.title, len(cells), runs, families, tokens_a_character, about)
    save(study, out)
    print(f"{study.notes()[0]}\nthe tables: {out / FILES[1]}")
    if failed:
        raise UserError(f"not finished: {'; '.join(failed)}")
