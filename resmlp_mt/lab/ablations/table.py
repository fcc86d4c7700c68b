"""``ablate``: train the rows that are not finished; write their figures as text, Markdown, JSON and pictures."""

import argparse
import shlex
import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scipy import stats

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import JsonFile, check_outputs, check_replaced, write_json, write_whole
from resmlp_mt.common.progress import markdown_table, text_table
from resmlp_mt.data.languages import check_folders
from resmlp_mt.lab import drawing
from resmlp_mt.lab.ablations import tuning
from resmlp_mt.lab.ablations.recipe import Recipe, RowFolder, read_recipe, row_folders
from resmlp_mt.lab.machine import facts, made_by
from resmlp_mt.lab.trainings.log import TrainingFigures, draw_curves, read_log
from resmlp_mt.lab.trainings.queue import check_known, duration, empty, resumed, train_all
from resmlp_mt.score.scoring import Score, detokenized_scores, paired_bootstrap, sacre_bleu

SIGNIFICANT = 0.05  # p-values below it are marked, as in sacrebleu
CONFIDENCE = 0.95
METRICS = {"sacrebleu": "sacreBLEU", "chrf2": "chrF2"}
COMPARED = {"perplexity": "valid. perplexity", **METRICS}
"""The figures whose mean, standard deviation and differences are reported."""

_WHITE_BOX = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # a white box behind a number

HEADING = [*COMPARED.values(), "parameters", "words/s", "processor time"]


@dataclass(frozen=True)
class Spread:
    """The mean of a row's figures over seeds, and their sample standard deviation (None for a single figure)."""

    mean: float
    sd: float | None

    @staticmethod
    def of(values: Sequence[float]) -> "Spread":
        return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)

    def __format__(self, digits: str) -> str:
        return f"{self.mean:{digits}}" + (f" +- {self.sd:{digits}}" if self.sd is not None else "")


@dataclass(frozen=True)
class Difference:
    """The difference of two rows' means, with Welch's t interval (None: the variance cannot be estimated)."""

    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def significant(self) -> bool:
        """Whether zero is outside of the interval."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:+.2f}, {self.high:+.2f}]"
        return f"{self.mean:+.2f}{interval}{'**' if self.significant else ''}"


def difference(row: Sequence[float], baseline: Sequence[float]) -> Difference:
    """Compare two rows as independent samples: the same seed gives the same order of batches, not the same weights."""
    mean = statistics.fmean(row) - statistics.fmean(baseline)
    if min(len(row), len(baseline)) < 2 or max(len(set(row)), len(set(baseline))) < 2:
        return Difference(mean)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # scipy's, of a side without any spread
        interval = stats.ttest_ind(row, baseline, equal_var=False).confidence_interval(CONFIDENCE)
    return Difference(mean, float(interval.low), float(interval.high))


@dataclass(frozen=True)
class Figures:
    """What is known of one training of the row ``name``."""

    name: str
    seed: int
    options: str  # of fairseq-train, the row's own
    training: TrainingFigures
    processor_seconds: float
    trained: dict[str, str]  # date and circumstances
    scores: dict[str, Score]  # ``sacrebleu`` and ``chrf2`` of the translation
    bootstrap: dict[str, Any] | None  # comparison with the baseline of the seed; None without one, or for itself
    runs: Sequence[float] = ()  # processor seconds of each run: of several if the training was resumed

    def value(self, figure: str) -> float:
        return self.training.perplexity if figure == "perplexity" else self.scores[figure]["score"]

    def differs(self, metric: str) -> bool:
        """Whether the row differs significantly from the baseline, by the paired bootstrap."""
        return self.bootstrap is not None and self.bootstrap[metric]["p_value"] < SIGNIFICANT

    def cells(self) -> list[str]:
        scores = [f"{self.scores[key]['score']:.1f}{'*' if self.differs(key) else ''}" for key in METRICS]
        return _cells([f"{self.training.perplexity:.2f}", *scores], [self])


@dataclass(frozen=True)
class Table:
    title: str
    baseline: str
    budget: str
    scored: str  # what was scored
    about: dict[str, str]
    figures: list[Figures]
    names: list[str]  # of all rows, in their order
    seeds: tuple[int, ...] = ()  # of every row's trainings; empty where each row has only one

    @property
    def rows(self) -> dict[str, list[Figures]]:
        """The trainings of each row that has any, in the table's order."""
        found: dict[str, list[Figures]] = {name: [] for name in self.names}
        for each in self.figures:
            found[each.name].append(each)
        return {name: each for name, each in found.items() if each}

    def label(self, row: Figures) -> str:
        return f"{row.name} with seed {row.seed}" if self.seeds else row.name

    def values(self, row: str, figure: str) -> list[float]:
        return [each.value(figure) for each in self.rows[row]]

    def spreads(self, row: str) -> dict[str, Spread]:
        """Return mean and standard deviation over a row's trainings, for each figure of COMPARED."""
        return {figure: Spread.of(self.values(row, figure)) for figure in COMPARED}

    def differences(self) -> dict[str, dict[str, Difference]]:
        """Return each row's difference from the baseline by figure, over seeds; {} without seeds or baseline."""
        if not self.seeds or self.baseline not in self.rows:
            return {}
        theirs = {figure: self.values(self.baseline, figure) for figure in COMPARED}
        return {
            row: {figure: difference(self.values(row, figure), theirs[figure]) for figure in COMPARED}
            for row in self.rows
            if row != self.baseline
        }

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        if self.seeds:
            spreads = {row: self.spreads(row) for row in self.rows}
            both: dict[str, dict[str, Any]] = {"over seeds": spreads, "differences": self.differences()}
            for name, rows in both.items():
                values[name] = {row: {key: vars(each) for key, each in of.items()} for row, of in rows.items()}
        return values

    def tables(self) -> list[list[list[str]]]:
        """Return the table's cells; with seeds, also a table of the differences and one of the single trainings."""
        if not self.seeds:
            return [self.cells()]
        trainings = [["", "seed", *HEADING], *([each.name, str(each.seed), *each.cells()] for each in self.figures)]
        differences = [self._cells_of_differences()] if self.differences() else []
        return [self.cells(), *differences, trainings]

    def cells(self) -> list[list[str]]:
        """Return the heading and a line for each row; rows that are not finished are blank."""
        heading = ["", *(["seeds"] if self.seeds else []), *HEADING]
        lines = {name: [name, *[""] * (len(heading) - 1)] for name in self.names}
        for name, row in self.rows.items():
            if self.seeds:
                spreads = [f"{each:.2f}" for each in self.spreads(name).values()]
                lines[name] = [name, str(len(row)), *_cells(spreads, row)]
            else:
                lines[name] = [name, *row[0].cells()]
        return [heading, *lines.values()]

    def _cells_of_differences(self) -> list[list[str]]:
        heading = [f"minus {self.baseline}", *COMPARED.values()]
        heading += [f"{name}: p < {SIGNIFICANT}" for name in METRICS.values()]
        lines = []
        for name, differences in self.differences().items():
            pairs = [each for each in self.rows[name] if each.bootstrap is not None]
            differing = [f"{sum(each.differs(metric) for each in pairs)} of {len(pairs)} seeds" for metric in METRICS]
            lines.append([name, *map(str, differences.values()), *differing])
        return [heading, *lines]

    def notes(self) -> list[str]:
        lines = [
            f"{self.budget}. Scores: {self.scored}. Perplexity: after the last epoch. Words: target subwords a second "
            "of the clock while training, median.",
        ]
        if any(row.differs(metric) for row in self.figures for metric in METRICS):
            pair = " with the same seed" if self.seeds else ""
            lines[0] += f" *: differs from {self.baseline}{pair}, paired bootstrap, p < {SIGNIFICANT}."
        if self.seeds:
            lines += [
                "Over seeds: mean +- standard deviation (n - 1); words/s and processor time are means.",
                f"minus {self.baseline}: difference of the means, with Welch's t interval ({CONFIDENCE:.0%}), "
                "which covers chance in training and is not corrected for the number of rows; **: zero is outside of "
                f"it. p < {SIGNIFICANT}: paired bootstrap against the same seed of {self.baseline}, which covers "
                "chance in the choice of sentences.",
            ]
        lines += resumed({self.label(row): row.runs for row in self.figures})
        for key, name in METRICS.items():
            for signature in sorted({row.scores[key]["signature"] for row in self.figures}):
                lines.append(f"{name}: {signature}")
        return lines

    def as_text(self) -> str:
        return "\n\n".join([self.title, *map(text_table, self.tables()), "\n".join(self.notes())])

    def as_markdown(self, pictures: Sequence[str] = ()) -> str:
        own = [["row", "its own options of fairseq-train"]]
        own += [[name, f"`{row[0].options}`" if row[0].options else ""] for name, row in self.rows.items()]
        parts = [f"# {self.title}", *map(markdown_table, self.tables()), *self.notes(), markdown_table(own)]
        circumstances: dict[str, list[str]] = {}
        for row in self.figures:
            circumstances.setdefault(facts(row.trained), []).append(self.label(row))
        parts += [f"Trained ({', '.join(names)}): {how}." for how, names in circumstances.items()]
        parts.append(f"{facts(self.about)}.")
        parts += [f"![{self.title}]({picture})" for picture in pictures]
        return "\n\n".join(parts) + "\n"


def _cells(compared: list[str], row: Sequence[Figures]) -> list[str]:
    """Return the cells under HEADING: those of COMPARED as given, and means over one or more trainings."""
    return [
        *compared,
        f"{row[0].training.parameters:,}",
        f"{statistics.fmean(each.training.words_per_second for each in row):,.0f}",
        duration(statistics.fmean(each.processor_seconds for each in row)),
    ]


def make_table(recipe: Recipe, rows: Sequence[RowFolder], expected: list[str], about: Mapping[str, str]) -> Table:
    """Score the rows that are finished against the ``expected`` lines of running text."""
    finished = [row for row in rows if row.finished]
    if not finished:
        raise UserError(f"{recipe.title}: no row is finished: see the logs of the rows")
    language = recipe.langs[1]
    texts = {(row.name, row.seed): row.translated_text(expected) for row in finished}
    figures = []
    for row in finished:
        name, seed, log = row.name, row.seed, read_log(row.log)
        log.check_updates(recipe.updates_per_epoch)
        training = log.figures(recipe.epochs_of(name))
        options = shlex.join(recipe.own_options(name))
        scores = detokenized_scores(texts[name, seed], expected, language)
        bootstrap = None
        if name != recipe.baseline and (recipe.baseline, seed) in texts:
            bootstrap = paired_bootstrap(texts[name, seed], texts[recipe.baseline, seed], expected, language)
        figures.append(Figures(name, seed, options, training, sum(row.runs), row.trained, scores, bootstrap, row.runs))
    seeds = f"seeds {', '.join(map(str, recipe.seeds))}" if recipe.seeds else f"seed {recipe.seed}"
    return Table(
        title=recipe.title,
        baseline=recipe.baseline,
        budget=f"{recipe.budget}, {seeds}",
        scored=f"{recipe.subset}, {Path(recipe.reference).name}",
        about=dict(about),
        figures=figures,
        names=list(recipe.rows),
        seeds=tuple(recipe.seeds),
    )


def figure_of(table: Table) -> Any:
    """Draw three panels (score, perplexity, speed) with a line for each row."""
    rows = table.rows
    figure = drawing.new_figure(12, 1.7 + 0.36 * len(rows))
    score, perplexity, speed = figure.subplots(1, 3, sharey=True)
    note = "small: each seed; whiskers: standard deviation" if table.seeds else ""
    _dots(score, table, "sacrebleu", "{:.1f}")
    score.set_xlabel(f"sacreBLEU, higher is better\n{note or 'whiskers: 95 % interval (bootstrap)'}")
    _dots(perplexity, table, "perplexity", "{:.2f}")
    perplexity.set_xlabel(f"validation perplexity, lower is better\n{note}")
    words = [statistics.fmean(each.training.words_per_second for each in row) for row in rows.values()]
    bars = speed.barh(range(len(rows)), words, color=[*map(_color, rows)], height=0.5)
    speed.bar_label(bars, [f"{value:,.0f}" for value in words], padding=3, fontsize="small", bbox=_WHITE_BOX)
    speed.set_xlabel("speed of the training\n(target subwords a second of the clock)")
    _finish(speed, table, words)
    score.set_yticks(range(len(rows)), list(rows))
    score.set_ylim(len(rows) - 0.5, -0.6)
    figure.suptitle(f"{table.title} ({table.budget})\ndotted: {table.baseline}, which the others are compared with")
    return figure


def whiskers(table: Table, figure: str) -> list[float]:
    """Return each row's standard deviation over seeds; without seeds, half of its 95 % bootstrap interval, or 0."""
    rows = table.rows
    if table.seeds:
        return [table.spreads(name)[figure].sd or 0.0 for name in rows]
    of = {row.name: row.bootstrap[figure] for row in table.figures if row.bootstrap and figure in row.bootstrap}
    found = {name: each["system"]["ci"] for name, each in of.items()}
    if of:
        found[table.baseline] = next(iter(of.values()))["baseline"]["ci"]
    return [found.get(name, 0.0) for name in rows]


def _color(row: str) -> str:
    """Return the color of the row's system; variants have the color of the ResMLP."""
    return drawing.SYSTEMS.get(row.lower(), drawing.RESMLP)


def _dots(axis: Any, table: Table, figure: str, form: str) -> None:
    means = [table.spreads(name)[figure].mean for name in table.rows]
    for place, (row, mean, error) in enumerate(zip(table.rows, means, whiskers(table, figure), strict=True)):
        color = _color(row)
        axis.errorbar(mean, place, xerr=error or None, fmt="o", color=color, capsize=3)
        if table.seeds:
            points = table.values(row, figure)
            axis.plot(points, [place + 0.25] * len(points), "o", color=color, markersize=3, alpha=0.6)
        axis.annotate(
            form.format(mean), (mean, place), (0, 7),
            textcoords="offset points", ha="center", fontsize="small", bbox=_WHITE_BOX,
        )  # fmt: skip
    axis.grid(axis="x", alpha=0.3)
    _finish(axis, table, means)


def _finish(axis: Any, table: Table, values: list[float]) -> None:
    for name, value in zip(table.rows, values, strict=True):
        if name == table.baseline:
            axis.axvline(value, color="0.45", linewidth=1, linestyle=":", zorder=0)
    axis.margins(x=0.15)
    axis.spines[["top", "right"]].set_visible(False)


def save(table: Table, rows: list[RowFolder], out: Path) -> None:
    markdown, as_json, *pictures = rows[0].recipe.table_files
    write_json(out / as_json, table.as_json())
    pictures = pictures if drawing.wants_pictures() else []
    if pictures:
        drawing.save(figure_of(table), out / pictures[0])
        draw_curves({row.label: read_log(row.log) for row in rows if row.finished}, out / pictures[1], table.title)
    write_whole(out / markdown, table.as_markdown(pictures))


def run(args: argparse.Namespace) -> None:
    recipe = read_recipe(args.recipe)
    sacre_bleu(recipe.langs[1])  # a missing package is found now, not after the training
    only, retrain = (check_known(recipe.rows, given, "row") for given in (args.rows or list(recipe.rows), args.retrain))
    if not retrain <= only:
        raise UserError(f"--retrain {' '.join(sorted(retrain - only))}: not of the --rows: {', '.join(args.rows)}")
    out = args.out or args.work / "ablations" / args.recipe.stem
    reference, data = args.work / recipe.reference, args.work / recipe.data
    check_folders(data, out)
    about = {"Made by": f"`{made_by('resmlp-mt ablate')['command']}`"}
    if recipe.tune is not None:
        check_replaced(out / "tuning.json", [out / "tuning.md"])
        found = tuning.tune(recipe, out, data, args.jobs, only, retrain, not args.table)
        print(tuning.save(recipe, found, out, about))
        return
    expected, _ = recipe.target_text(reference, data, recipe.subset)
    rows = row_folders(recipe, out, data)
    markdown, record, *pictures = (out / name for name in recipe.table_files)
    check_outputs([markdown, record, *pictures, *(row.folder for row in rows)], [args.recipe, reference, data])
    check_replaced(next(out.glob("table*.json"), record), [markdown, *pictures])  # or the record of another subset
    before = JsonFile(record).values
    lost = {*before.get("names", ()), *before.get("seeds", ())} - {*recipe.rows, *recipe.seeds}
    if lost and (title := before.get("title")) != recipe.title:
        raise UserError(f"{record}: is of {title!r}, not {recipe.title!r}: move table* and *.png away")
    failed = []
    if not args.table:
        empty(rows, retrain)
        failed = train_all([row for row in rows if row.name in only], args.jobs)
    table = make_table(recipe, rows, expected, about)
    print(table.as_text())
    save(table, rows, out)
    if failed:
        raise UserError(f"not finished: {'; '.join(failed)}")
