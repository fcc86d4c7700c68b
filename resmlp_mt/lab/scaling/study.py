"""``scale``: train the cells that are not finished, and write the study as Markdown, as JSON and as a picture."""

import argparse
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import check_outputs, check_replaced, write_json, write_whole
from resmlp_mt.common.progress import markdown_table, text_table
from resmlp_mt.data.binarized import read_dictionary
from resmlp_mt.data.languages import check_folders
from resmlp_mt.lab import drawing
from resmlp_mt.lab.machine import facts, made_by, processor
from resmlp_mt.lab.scaling import grid, laws
from resmlp_mt.lab.scaling.trend import Difference, Place, Trend, differences, means, trend
from resmlp_mt.lab.trainings.queue import check_known, duration, empty, resumed, train_all
from resmlp_mt.score.scoring import sacre_bleu

FILES = "scaling.json", "scaling.png", "scaling.md"

MARKERS = "o", "s", "^", "D", "v", "P"

NOTES = (
    "Loss: the lowest cross entropy of the validation set in a training, not smoothed, in nats a target subword; means "
    "over seeds. N: parameters of encoder and decoder without embeddings and output projection, mixing matrices as "
    "stored. D: target subwords of the sample. BLEU: of the validation set, translated with fairseq's best weights, "
    "which are those of the lowest smoothed loss.",
    "Trend: a regression of the difference of losses on log2 N, log2 D and their product over all cells that both "
    f"families have, Student's {laws.CONFIDENCE:.0%} intervals. The crossing is the D at which both are equal with the "
    "largest N, beyond the measured range an extrapolation; it is shown only if that slope's interval leaves out zero.",
    "Law: ((N_c / N)^(alpha / beta) + D_c / D)^beta (Kaplan et al. 2020), Huber's loss on log L; "
    f"{laws.CONFIDENCE:.0%} intervals of a bootstrap over runs, made wider by sqrt(runs / (runs - 4)). Misfit and "
    "spread over seeds are standard deviations of log L; the errors are those of runs that a fit has not seen.",
)
"""What the figures mean."""


@dataclass(frozen=True)
class Study:
    title: str
    planned: int  # cells
    runs: list[grid.Run]  # those that are finished
    families: Mapping[str, laws.FamilyFit]
    tokens_a_character: float  # of the validation set: target subwords with </s> over characters of running text
    about: Mapping[str, str]  # other facts, such as the command
    search: str = ""  # options of fairseq-generate; "": nothing is translated

    @property
    def diverged(self) -> list[str]:
        return [run.cell.name for run in self.runs if run.diverged]

    @cached_property
    def trends(self) -> dict[str, Trend]:
        """The trends of each family minus each earlier family, in loss and in BLEU."""
        names = {f"{one} minus {other}": (one, other) for other, one in itertools.combinations(self.families, 2)}
        found = {
            f"{name}{unit}": trend(differences(self.runs, *pair, figure).values())
            for figure, unit in (("best", ""), ("bleu", ", BLEU"))
            for name, pair in names.items()
        }
        return {name: each for name, each in found.items() if each is not None}

    def notes(self) -> list[str]:
        """How much is finished, which families cannot be fitted, and what the figures are."""
        finished = f"{len(self.runs)} of {self.planned} trainings are finished."
        if self.diverged:
            finished += f" {len(self.diverged)} diverged and are left out: {', '.join(self.diverged)}."
        untranslated = sum(run.bleu is None and not run.diverged for run in self.runs)
        if self.search and untranslated:
            finished += f" {untranslated} have no translation by {self.search}, so no BLEU: --retrain CELL makes one."
        why_not = (f"{name}: {fit.why_not}." for name, fit in self.families.items() if fit.why_not)
        return [finished, *why_not, *resumed({run.cell.name: run.runs for run in self.runs}), *NOTES]

    def tables(self) -> dict[str, list[list[str]]]:
        baseline, *others = self.families
        tables: dict[str, list[list[str]]] = {}
        for heading, name, figure, form in ("Lowest loss", "Loss", "best", ".3f"), ("BLEU", "BLEU", "bleu", ".1f"):
            tables[heading] = self._by_cell(means(self.runs, figure), f"{{:{form}}}")
            beside = {
                cell: value
                for family in others
                for cell, (_, _, value) in differences(self.runs, family, baseline, figure).items()
            }
            tables[f"{name} minus that of {baseline}"] = self._by_cell(beside, f"{{:+{form}}}")
        columns = ["", "cells", "mean", "for each doubling of N", "of D", "of D with the largest N", "crossing, D"]
        tables["Trends of the difference"] = [columns] + [
            [name, *(str(value) if value is not None else "none" for value in vars(each).values())]
            for name, each in self.trends.items()
        ]
        tables["The law of each family"] = [["", *laws.NAMES, "misfit", "spread over seeds"]] + [
            [name, *map(str, of.constants.values()), f"{of.misfit:.2%}", f"{of.seeds_spread:.2%}".replace("nan%", "")]
            for name, of in self.families.items()
            if of.law is not None
        ]
        tables["Runs that a fit has not seen"] = [["left out", "error"]] + [
            [f"{name}, {what}", f"{error:.2%}"]
            for name, fit in self.families.items()
            for what, error in fit.held_out.items()
        ]
        tables["The runs"] = self._runs()
        return {heading: rows for heading, rows in tables.items() if len(rows) > 1}

    def _by_cell(self, values: Mapping[Place, float], form: str) -> list[list[str]]:
        sizes = {(run.cell.family, run.cell.size): run.parameters.non_embedding for run in self.runs}
        amounts = sorted({pairs for _, _, pairs in values})
        rows = [["", "N", *(f"{pairs:,} pairs" for pairs in amounts)]]
        for family, size in sorted({cell[:2] for cell in values}, key=list(sizes).index):
            cells = ((family, size, pairs) for pairs in amounts)
            shown = (form.format(values[cell]) if cell in values else "" for cell in cells)
            rows.append([f"{family}, {size}", f"{sizes[family, size]:,}", *shown])
        return rows

    def _runs(self) -> list[list[str]]:
        heading = ["cell", "N", "encoder", "decoder", "mixing", "D", "nats/token", "nats/character"]
        rows = [[*heading, "lowest after", "updates", "BLEU", "processor time"]]
        for run in self.runs:
            of = run.parameters
            counts = (f"{count:,}" for count in (of.non_embedding, of.encoder, of.decoder, of.mixing, run.tokens))
            bleu = "" if run.bleu is None else f"{run.bleu:.1f}"
            found = ["none"] * 4
            if run.losses:
                losses = run.best, run.best * self.tokens_a_character
                lowest_at, last = run.updates[run.losses.index(run.best)], run.updates[-1]
                found = [*(f"{loss:.3f}" for loss in losses), f"{lowest_at / last:.0%}", f"{last:,.0f}"]
            rows.append([run.cell.name, *counts, *found, bleu, duration(run.processor_seconds)])
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
            "runs": [asdict(run) for run in self.runs],
        }

    def as_markdown(self, has_picture: bool) -> str:
        parts = [f"# {self.title}", *[f"![{self.title}]({FILES[1]})"] * has_picture, *self.notes()]
        for heading, rows in self.tables().items():
            parts += [f"## {heading}", markdown_table(rows)]
        return "\n\n".join([*parts, f"{facts(self.about)}."]) + "\n"


def save(study: Study, out: Path) -> None:
    """Write the picture (with matplotlib), the Markdown and the JSON."""
    as_json, picture, markdown = (out / name for name in FILES)
    write_json(as_json, study.as_json())
    if has_picture := drawing.wants_pictures():
        write_whole(picture, study_picture(study))
    write_whole(markdown, study.as_markdown(has_picture))


def study_picture(study: Study) -> bytes:
    """Draw loss over data, loss over size, and differences to the first family, as PNG, 1,400 pixels wide."""
    figure = drawing.new_figure(14, 5)
    axes = figure.subplots(1, 3)
    baseline, *others = study.families
    markers = zip(drawing.colors_of(study.families).items(), itertools.cycle(MARKERS), strict=False)
    styles = {name: {"color": color, "marker": marker} for (name, color), marker in markers}
    size = max(study.runs, key=lambda run: run.parameters.non_embedding).cell.size
    most = max(run.cell.pairs for run in study.runs)
    for name, fit in study.families.items():
        largest = [run for run in fit.runs if run.cell.size == size]
        _draw_losses(axes[0], largest, fit.law, 1, {**styles[name], "label": name})
        _draw_losses(axes[1], [run for run in fit.runs if run.cell.pairs == most], fit.law, 0, styles[name])
    for name in others:
        _draw_differences(axes[2], differences(study.runs, name, baseline).values(), styles[name])
    axes[2].axhline(0, color="0.3", linewidth=0.8)
    axes[0].set(xlabel="target tokens of the sample D, largest model (lines: the law)", ylabel="lowest validation loss")
    axes[1].set(xlabel="non-embedding parameters N, largest sample", ylabel="lowest validation loss")
    axes[2].set(xlabel="D (a line a size, thick: large)", ylabel=f"loss minus that of {baseline}")
    for axis in axes.flat:
        axis.set_xscale("log")
        axis.xaxis.set_minor_formatter("")  # labels of a short range would overlap
        axis.grid(alpha=0.3, which="major")
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=len(styles), frameon=False)
    figure.suptitle(study.title)
    return drawing.png(figure, dpi=100)


def _draw_losses(axis: Any, runs: Sequence[grid.Run], law: Any, row: int, style: Mapping[str, Any]) -> None:
    """Draw the loss over N (row 0) or D (row 1) for runs that have the same value of the other."""
    points = laws.points_of(runs)
    axis.plot(points[row], points[2], linestyle="none", markersize=5, **style)
    if law is not None and runs:
        along = np.geomspace(points[row].min(), points[row].max(), 60)
        fixed = np.full_like(along, points[1 - row, 0])
        axis.plot(along, laws.loss_by(law, *((along, fixed) if row == 0 else (fixed, along))), color=style["color"])


def _draw_differences(axis: Any, cells: Iterable[Difference], style: Mapping[str, Any]) -> None:
    by_size: dict[float, list[tuple[float, float]]] = {}
    for n, d, difference in sorted(cells):
        by_size.setdefault(n, []).append((d, difference))
    for number, points in enumerate(by_size.values(), 1):
        axis.plot(*zip(*points, strict=True), linewidth=0.6 * number, markersize=1.5 + number, **style)


def run(args: argparse.Namespace) -> None:
    recipe = grid.read_scaling_recipe(args.recipe)
    sacre_bleu(recipe.langs[1])  # a missing package is found now, not after the training
    order = grid.cells_of(recipe)
    retrain = check_known([cell.name for cell in order], args.retrain, "cell")
    out = args.out or args.work / "scaling" / args.recipe.stem
    reference, data = args.work / recipe.reference, args.work / recipe.data
    check_folders(data, out)
    text, subwords = recipe.target_text(reference, data, "valid")
    plans = grid.plan(recipe, data)
    if args.dry_run:
        print(text_table(grid.plan_table(plans)))
        return
    record, *others = (out / name for name in FILES)
    check_outputs([out, record, *others], [args.recipe, reference, data])
    check_replaced(record, others)
    cells = grid.cell_folders(recipe, plans, out, data)
    failed: list[str] = []
    if not args.table:
        empty(cells, retrain)
        failed = train_all(cells, args.jobs, {cell.name: cell.plan.seconds for cell in cells})
    vocabulary = len(read_dictionary(data / f"dict.{recipe.langs[1]}.txt"))
    runs = [grid.read_run(cell, vocabulary, text) for cell in cells if cell.finished]
    runs.sort(key=lambda run: order.index(run.cell))
    if not runs:
        raise UserError(f"{recipe.title}: no cell is finished: see the logs of the cells")
    own = {name: [run for run in runs if run.cell.family == name] for name in recipe.families}
    families = {name: laws.fit_family(own[name], seed) for seed, name in enumerate(own, 1)}
    tokens_a_character = int(subwords.sum()) / sum(map(len, text))
    differing = {"on", "load", "rows at a time"}  # between trainings
    trained = Counter(
        facts({k: v for k, v in each.trained.items() if k not in differing}) for each in cells if each.finished
    )
    about = {
        **made_by("resmlp-mt scale"),
        "machine": processor(),
        "trained": "; ".join(f"{count}: {each}" for each, count in trained.most_common()),
    }
    study = Study(recipe.title, len(cells), runs, families, tokens_a_character, about, recipe.search)
    save(study, out)
    print(f"{study.notes()[0]}\nthe tables: {out / FILES[2]}")
    if failed:
        raise UserError(f"not finished: {'; '.join(failed)}")
