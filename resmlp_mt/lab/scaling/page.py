"""``scale``: train what is not finished; the study as one page of HTML, as Markdown, as JSON and as a picture."""

import argparse
import datetime
import importlib.util
import io
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, check_outputs, read_lines, write_json
from resmlp_mt.common.tables import markdown_table, text_table
from resmlp_mt.data.binarized import lengths, read_dictionary
from resmlp_mt.lab import page as html
from resmlp_mt.lab.machine import describe, facts
from resmlp_mt.lab.scaling.fit import (
    CHOICES,
    CONFIDENCE,
    Constants,
    FamilyFit,
    differences,
    fit_families,
    fit_shared,
    points_of,
)
from resmlp_mt.lab.scaling.grid import (
    DIVERGED,
    CellFolder,
    Run,
    cell_folders,
    cells_of,
    plan,
    plan_table,
    read_run,
    read_scaling_recipe,
)
from resmlp_mt.lab.trainings.queue import check_places, duration, known, train_all

FILES = "scaling.html", "scaling.png", "scaling.md", "scaling.json"

Table = list[list[str]]

NOTES = (
    "Loss: cross entropy of the validation set, not smoothed, in nats a target subword and in nats a character of the "
    "running text. Compute: three times the forward FLOPs (matrix products) times the target subwords trained on, "
    "padding left out. N: parameters of encoder and decoder without embeddings and output projection. D: target "
    "subwords of the sample; those of later epochs are compute, not data.",
    "Mixing matrices (A, with its bias and relative term) grow with the number of positions, not with the width. N has "
    "them, as stored; the other choice, without them, has a table of its own.",
    "L(N, D) = E + A N^-alpha + B D^-beta is fitted to the lowest loss of each run, beside it a law in which N and D "
    "act together, ((N_c / N)^(alpha / beta) + D_c / D)^beta (Kaplan et al. 2020), and L(C) = a (b + C)^-alpha + E to "
    "the frontier: the lowest loss that any curve has reached with that compute. Huber's loss on log L, a grid of "
    f"starts. Brackets: {CONFIDENCE:.0%} intervals of a bootstrap over runs, a run's points together, made wider by "
    "sqrt(runs / (runs - constants)). C^N* and C^D* are where L(N, D) is least for a compute, if each token is read "
    "once.",
)
"""What the figures are."""


@dataclass(frozen=True)
class Study:
    """All that a page shows."""

    title: str
    planned: int  # cells
    runs: list[Run]  # those that are finished
    families: Mapping[str, FamilyFit]
    tokens_a_character: float  # of the validation set: target subwords with </s> over characters of running text
    about: Mapping[str, str]  # what else to tell, such as the command

    @cached_property
    def shared(self) -> dict[str, Constants]:
        """Of each family, the constants of the laws with one E for all."""
        return fit_shared(self.families)

    @cached_property
    def differences(self) -> dict[str, Constants]:
        """Of the families' exponents."""
        return differences(self.families)

    @property
    def diverged(self) -> list[str]:
        """The names of the cells that have."""
        return [run.cell.name for run in self.runs if run.end == DIVERGED]

    def notes(self) -> list[str]:
        """How much is finished, which families cannot be fitted, and what the figures are."""
        told = f"{len(self.runs)} of {self.planned} trainings are finished."
        if self.diverged:
            told += f" {len(self.diverged)} diverged and are left out: {', '.join(self.diverged)}."
        return [told, *(f"{name}: {fit.why_not}." for name, fit in self.families.items() if fit.why_not), *NOTES]

    def tables(self) -> dict[str, Table]:
        """By heading."""
        fitted = {name: fit for name, fit in self.families.items() if not fit.why_not}
        tables = {"The runs": self._runs()}
        for choice, what in CHOICES.items():
            tables[f"L(N, D), N: {what}"] = _table({name: fit.sizes[choice].constants for name, fit in fitted.items()})
        tables["L(N, D) with one E for all families"] = _table(self.shared)
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
        """Everything, as JSON values."""
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
            "one E for all": _constants(self.shared),
            "differences": _constants(self.differences),
            "runs": [asdict(run) | {"compute": run.compute} for run in self.runs],
        }

    def as_markdown(self) -> str:
        """A document beside the picture."""
        parts = [f"# {self.title}", f"![{self.title}]({FILES[1]})", *self.notes()]
        for heading, rows in self.tables().items():
            parts += [f"## {heading}", markdown_table(rows)]
        return "\n\n".join([*parts, f"{facts(self.about)}."]) + "\n"

    def as_html(self, png: bytes | None) -> str:
        """A page that needs no other file."""
        what = f"{self.title}: loss over compute, parameters and data; the best size"
        intro = [html.picture(png, what)] if png else []
        intro += [html.paragraph(each) for each in [*self.notes(), f"{facts(self.about)}."]]
        return html.page(self.title, intro, {heading: [html.table(rows)] for heading, rows in self.tables().items()})


def _table(rows: Mapping[str, Constants]) -> Table:
    """A row of estimates for each name."""
    heading = next(iter(rows.values()), {})
    return [["", *heading], *([name, *map(str, row.values())] for name, row in rows.items())]


def _constants(rows: Mapping[str, Constants]) -> dict[str, dict[str, dict[str, float | None]]]:
    return {name: {of: each.as_json() for of, each in row.items()} for name, row in rows.items()}


def _family(fit: FamilyFit) -> dict[str, Any]:
    if fit.why_not:
        return {"runs": len(fit.runs), "not fitted": fit.why_not}
    points = points_of(fit.runs)
    return {
        "runs": len(fit.runs),
        "L(N, D)": _constants({choice: of.constants for choice, of in fit.sizes.items()}),
        **_constants({"L(C)": fit.compute.constants}),
        "residual": fit.sizes["non_embedding"].residual,
        **_constants({"N and D together": fit.together.constants}),
        "residual of N and D together": fit.together.residual,
        "held out": [asdict(each) for each in fit.held_out],
        "ranges": {
            "N": float(points.parameters.max() / points.parameters.min()),
            "D": float(points.tokens.max() / points.tokens.min()),
        },
    }


def save(study: Study, out: Path) -> None:
    """Write the page, the picture (with matplotlib), the Markdown and the JSON."""
    page, picture, markdown, as_json = (out / name for name in FILES)
    png = drawn(study)
    if png:
        with atomic_write(picture, "wb") as stream:
            stream.write(png)
    for path, text in (page, study.as_html(png)), (markdown, study.as_markdown()):
        with atomic_write(path) as stream:
            stream.write(text)
    write_json(as_json, study.as_json())


def drawn(study: Study) -> bytes | None:
    """The picture as PNG, 1,200 pixels wide; None without matplotlib."""
    if not importlib.util.find_spec("matplotlib"):
        print("no picture without matplotlib: pip install matplotlib", file=sys.stderr)
        return None
    from resmlp_mt.lab.scaling.plots import figure_of

    stream = io.BytesIO()
    figure_of(study.families, study.runs, study.title).savefig(stream, format="png", dpi=100)
    return stream.getvalue()


def run(args: argparse.Namespace) -> None:
    """Train what is not finished and make the page."""
    recipe = read_scaling_recipe(args.recipe)
    retrain = known([cell.name for cell in cells_of(recipe)], args.retrain, "cell")
    out = args.out or args.work / "scaling" / args.recipe.stem
    reference, data = args.work / recipe.reference, args.work / recipe.data
    check_places(reference, data, out)
    plans = plan(recipe, data)
    if args.dry_run:
        print(text_table(plan_table(plans)))
        return
    check_outputs([out, *(out / name for name in FILES)], [args.recipe, reference, data])
    text, target = list(read_lines(reference)), lengths(data, "valid", recipe.langs)[1]
    if len(text) != len(target) or not any(text):
        raise UserError(f"{reference}: not the text of the validation set, which has {len(target):,} sentences")
    cells = cell_folders(recipe, plans, out, data)
    failed: list[str] = []
    if not args.table:
        failed = train_all(cells, args.jobs, retrain, {cell.name: cell.plan.seconds for cell in cells})
    vocabulary = len(read_dictionary(data / f"dict.{recipe.langs[1]}.txt"))
    runs = [read_run(cell, vocabulary) for cell in cells if cell.finished]
    if not runs:
        raise UserError(f"{recipe.title}: no cell is finished: see the logs of the cells")
    families = fit_families(runs, list(recipe.families))
    tokens_a_character = int(target.sum()) / sum(map(len, text))
    study = Study(recipe.title, len(cells), runs, families, tokens_a_character, about(cells))
    save(study, out)
    print(f"{study.notes()[0]}\nthe page: {out / FILES[0]}")
    if failed:
        raise UserError(f"not finished: {'; '.join(failed)}")


def about(cells: Sequence[CellFolder]) -> dict[str, str]:
    """How and where it was made."""
    trained = sorted({facts(cell.trained) for cell in cells if cell.finished})
    return {
        "command": shlex.join(["resmlp-mt", "scale", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "machine": describe(threads=1)["processor"],
        "trained": "; ".join(trained[:3]),
    }
