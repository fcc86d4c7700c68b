"""The figures of a table's rows, and the table as text, as Markdown and as JSON."""

import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scipy import stats

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import read_lines
from resmlp_mt.common.tables import facts, markdown_table, text_table
from resmlp_mt.lab.ablations.recipe import Recipe, RowFolder
from resmlp_mt.lab.trainings.log import TrainingFigures, check_updates, read_training
from resmlp_mt.lab.trainings.queue import duration
from resmlp_mt.score.bleu import Score, detokenized_scores, paired_bootstrap
from resmlp_mt.score.detokenize import Moses, check_tokenization, undo_subwords
from resmlp_mt.score.generate_output import in_order, read_generate_output

SIGNIFICANT = 0.05
"""The largest p-value that is marked, sacrebleu's own."""

CONFIDENCE = 0.95

METRICS = {"sacrebleu": "sacreBLEU", "chrf2": "chrF2"}
COMPARED = {"perplexity": "valid. perplexity", **METRICS}
"""The figures of which mean, standard deviation and differences are told."""

HEADING = [*COMPARED.values(), "parameters", "words/s", "processor time"]


@dataclass(frozen=True)
class Spread:
    """The mean of a row's figures with different seeds, and the sample's standard deviation; None of one figure."""

    mean: float
    sd: float | None


def spread(figures: Sequence[float]) -> Spread:
    return Spread(statistics.fmean(figures), statistics.stdev(figures) if len(figures) > 1 else None)


@dataclass(frozen=True)
class Difference:
    """How far the mean of a row is from that of another.

    ``low`` and ``high`` are Welch's t interval, for unequal variances; None where nothing tells the variance: one of
    the rows has a single figure, or in neither does any figure differ from the others.
    """

    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def told(self) -> bool:
        """Whether zero is outside of the interval."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:+.2f}, {self.high:+.2f}]"
        return f"{self.mean:+.2f}{interval}{'**' if self.told else ''}"


def difference(row: Sequence[float], baseline: Sequence[float]) -> Difference:
    """The difference of two rows' means, with its interval over seeds.

    The two are taken as independent: an equal seed makes the order of the batches equal, not the weights.
    """
    mean = statistics.fmean(row) - statistics.fmean(baseline)
    if min(len(row), len(baseline)) < 2 or max(len(set(row)), len(set(baseline))) < 2:
        return Difference(mean)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # scipy's, of a side without any spread
        interval = stats.ttest_ind(row, baseline, equal_var=False).confidence_interval(CONFIDENCE)
    return Difference(mean, float(interval.low), float(interval.high))


@dataclass(frozen=True)
class Figures:
    """What is known of one training of the row ``name``.

    Attributes:
        options: of fairseq-train, those that the row has of its own
        trained: date and circumstances of the training
        scores: ``sacrebleu`` and ``chrf2`` of the translation
        bootstrap: the same compared with the baseline's translation of the same seed; none for the baseline itself
    """

    name: str
    seed: int
    options: str
    training: TrainingFigures
    processor_seconds: float
    trained: dict[str, str]
    scores: dict[str, Score]
    bootstrap: dict[str, Any] | None

    def value(self, figure: str) -> float:
        """One of COMPARED."""
        return self.training.perplexity if figure == "perplexity" else self.scores[figure]["score"]

    def differs(self, metric: str) -> bool:
        """Whether the paired bootstrap tells the row from the one that it is compared with."""
        return self.bootstrap is not None and self.bootstrap[metric]["p_value"] < SIGNIFICANT

    def cells(self) -> list[str]:
        """By HEADING."""
        scores = [f"{self.scores[key]['score']:.1f}{'*' if self.differs(key) else ''}" for key in METRICS]
        return _cells([f"{self.training.perplexity:.2f}", *scores], [self])


@dataclass(frozen=True)
class Table:
    """The trainings that are finished.

    Attributes:
        scored: what the scores are of
        names: of all rows, in their order
        seeds: of every row's trainings; empty where each row has only one
    """

    title: str
    baseline: str
    budget: str
    scored: str
    about: dict[str, str]
    figures: list[Figures]
    names: list[str]
    seeds: tuple[int, ...] = ()

    @property
    def rows(self) -> dict[str, list[Figures]]:
        """The trainings of each row that has any, in the table's order."""
        found: dict[str, list[Figures]] = {name: [] for name in self.names}
        for each in self.figures:
            found[each.name].append(each)
        return {name: each for name, each in found.items() if each}

    def values(self, row: str, figure: str) -> list[float]:
        """One of COMPARED of each of a row's trainings."""
        return [each.value(figure) for each in self.rows[row]]

    def spreads(self, row: str) -> dict[str, Spread]:
        """By COMPARED, mean and standard deviation over a row's trainings."""
        return {figure: spread(self.values(row, figure)) for figure in COMPARED}

    def differences(self) -> dict[str, dict[str, Difference]]:
        """By row and figure, how far a row is from the one that all are compared with; over seeds."""
        if not self.seeds or self.baseline not in self.rows:
            return {}
        return {
            row: {
                figure: difference(self.values(row, figure), self.values(self.baseline, figure)) for figure in COMPARED
            }
            for row in self.rows
            if row != self.baseline
        }

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        values = asdict(self)
        if self.seeds:
            values["over seeds"] = _as_json({row: self.spreads(row) for row in self.rows})
            values["differences"] = _as_json(self.differences())
        return values

    def tables(self) -> list[list[list[str]]]:
        """The cells of the table; with seeds, also those of the differences, and of the trainings one by one."""
        if not self.seeds:
            return [self.cells()]
        trainings = [["", "seed", *HEADING], *([each.name, str(each.seed), *each.cells()] for each in self.figures)]
        differences = [self._cells_of_differences()] if self.differences() else []
        return [self.cells(), *differences, trainings]

    def cells(self) -> list[list[str]]:
        """The heading and a line a row; blank where a row is not finished."""
        heading = ["", *(["seeds"] if self.seeds else []), *HEADING]
        lines = {name: [name, *[""] * (len(heading) - 1)] for name in self.names}
        for name, row in self.rows.items():
            lines[name] = [name, *(self._cells_over_seeds(name, row) if self.seeds else row[0].cells())]
        return [heading, *lines.values()]

    def _cells_over_seeds(self, name: str, row: list[Figures]) -> list[str]:
        spreads = self.spreads(name).values()
        told = [f"{each.mean:.2f}" + (f" +- {each.sd:.2f}" if each.sd is not None else "") for each in spreads]
        return [str(len(row)), *_cells(told, row)]

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
        """What the figures are."""
        lines = [
            f"{self.budget}. Scores: {self.scored}. Perplexity: after the last epoch. Words: target subwords a second "
            "of the clock while training, median; processor time: of the training.",
        ]
        if any(row.differs(metric) for row in self.figures for metric in METRICS):
            pair = " with the same seed" if self.seeds else ""
            lines[0] += f" *: differs from {self.baseline}{pair}, paired bootstrap, p < {SIGNIFICANT}."
        if self.seeds:
            lines += [
                "Over seeds: mean +- standard deviation (n - 1); words/s and processor time are means.",
                f"minus {self.baseline}: the difference of the means, with Welch's t interval ({CONFIDENCE:.0%}) over "
                "the seeds of both, not corrected for the number of rows; **: zero is outside of it. It covers chance "
                "in training (first weights, order of batches, dropout), for these sentences.",
                f"p < {SIGNIFICANT}: the paired bootstrap, each seed's translation beside that of {self.baseline} with "
                "the same seed. It covers chance in the choice of the sentences, for these trained models. Neither "
                "covers both.",
            ]
        for key, name in METRICS.items():
            for signature in sorted({row.scores[key]["signature"] for row in self.figures}):
                lines.append(f"{name}: {signature}")
        return lines

    def as_text(self) -> str:
        """For the terminal."""
        return "\n\n".join([self.title, *map(text_table, self.tables()), "\n".join(self.notes())])

    def as_markdown(self, pictures: Sequence[str] = ()) -> str:
        """A document with pictures beside it."""
        own = [["row", "its own options of fairseq-train"]]
        own += [[name, f"`{row[0].options}`" if row[0].options else ""] for name, row in self.rows.items()]
        parts = [f"# {self.title}", *map(markdown_table, self.tables()), *self.notes(), markdown_table(own)]
        circumstances: dict[str, list[str]] = {}
        for row in self.figures:
            name = f"{row.name} with seed {row.seed}" if self.seeds else row.name
            circumstances.setdefault(facts(row.trained), []).append(name)
        parts += [f"Trained ({', '.join(names)}): {told}." for told, names in circumstances.items()]
        parts.append(f"{facts(self.about)}.")
        parts += [f"![{self.title}]({picture})" for picture in pictures]
        return "\n\n".join(parts) + "\n"


def _cells(compared: list[str], row: Sequence[Figures]) -> list[str]:
    """Cells by HEADING: those of COMPARED, and the means of one or more trainings."""
    return [
        *compared,
        f"{row[0].training.parameters:,}",
        f"{statistics.fmean(each.training.words_per_second for each in row):,.0f}",
        duration(statistics.fmean(each.processor_seconds for each in row)),
    ]


def _as_json(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row: {figure: asdict(each) for figure, each in figures.items()} for row, figures in rows.items()}


def make_table(recipe: Recipe, rows: Sequence[RowFolder], reference: Path, about: Mapping[str, str]) -> Table:
    """Score the rows that are finished, beside the running text of what they translated."""
    finished = [row for row in rows if row.finished]
    if not finished:
        raise UserError(f"{recipe.title}: no row is finished: see the logs of the rows")
    language = recipe.langs[1]
    expected = list(read_lines(reference))
    check_tokenization(expected, False, str(reference))
    texts = {(row.name, row.seed): running_text(row.translation, len(expected), language) for row in finished}
    figures = []
    for row in finished:
        check_updates(row.log, recipe.updates_per_epoch)
        text = texts[row.name, row.seed]
        baseline = texts.get((recipe.baseline, row.seed)) if row.name != recipe.baseline else None
        figures.append(
            Figures(
                name=row.name,
                seed=row.seed,
                options=" ".join(recipe.own_options(row.name)),
                training=read_training(row.log, recipe.epochs_of(row.name)),
                processor_seconds=row.processor_seconds,
                trained=row.trained,
                scores=detokenized_scores(text, expected, language),
                bootstrap=paired_bootstrap(text, baseline, expected, language) if baseline is not None else None,
            )
        )
    seeds = f"seeds {', '.join(map(str, recipe.seeds))}" if recipe.seeds else f"seed {recipe.seed}"
    return Table(
        title=recipe.title,
        baseline=recipe.baseline,
        budget=f"{recipe.budget}, {seeds}",
        scored=f"{recipe.subset}, {reference.name}",
        about=dict(about),
        figures=figures,
        names=list(recipe.rows),
        seeds=tuple(recipe.seeds),
    )


def running_text(path: Path, count: int, language: str) -> list[str]:
    """The translations in a file of fairseq-generate's as running text, in the order of the reference."""
    words = undo_subwords(in_order(read_generate_output([path]), count), "subword_nmt", str(path))
    check_tokenization(words, True, str(path))
    moses = Moses(language)
    return [moses.text(line) for line in words]
