"""The figures of a table's rows, and the table as text, as Markdown and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from resmlp_mt.ablations.recipe import Recipe
from resmlp_mt.ablations.running import RowFolder
from resmlp_mt.ablations.training_log import TrainingFigures, check_updates, read_training
from resmlp_mt.errors import UserError
from resmlp_mt.evaluation.bleu import Score, detokenized_scores, paired_bootstrap
from resmlp_mt.evaluation.detokenize import Moses, check_tokenization, undo_subwords
from resmlp_mt.evaluation.generate_output import in_order, read_generate_output
from resmlp_mt.files import read_lines
from resmlp_mt.tables import facts, markdown_table, text_table

SIGNIFICANT = 0.05
"""The largest p-value that is marked, sacrebleu's own."""

METRICS = {"sacrebleu": "sacreBLEU", "chrf2": "chrF2"}


@dataclass(frozen=True)
class Figures:
    """What is known of one row.

    Attributes:
        name: the row's
        options: of fairseq-train, those that it has of its own
        training: from the log
        processor_seconds: of the training
        trained: date and circumstances of the training
        scores: ``sacrebleu`` and ``chrf2`` of the translation
        bootstrap: the same compared with the row that all are compared with; none for that row itself
    """

    name: str
    options: str
    training: TrainingFigures
    processor_seconds: float
    trained: dict[str, str]
    scores: dict[str, Score]
    bootstrap: dict[str, Any] | None

    def differs(self, metric: str) -> bool:
        """Whether the paired bootstrap tells the row from the one that it is compared with."""
        return self.bootstrap is not None and self.bootstrap[metric]["p_value"] < SIGNIFICANT


@dataclass(frozen=True)
class Table:
    """The rows that are finished.

    Attributes:
        about: what else to tell, such as the command
        names: of all rows, in their order
    """

    title: str
    baseline: str
    budget: str
    about: dict[str, str]
    figures: list[Figures]
    names: list[str]

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return asdict(self)

    def cells(self) -> list[list[str]]:
        """The heading and a line a row; blank where a row is not finished."""
        heading = ["", "valid. perplexity", *METRICS.values(), "parameters", "words/s", "processor time"]
        lines = {name: [name, *[""] * (len(heading) - 1)] for name in self.names}
        for row in self.figures:
            lines[row.name] = [
                row.name,
                f"{row.training.perplexity:.2f}",
                *(f"{row.scores[key]['score']:.1f}{'*' if row.differs(key) else ''}" for key in METRICS),
                f"{row.training.parameters:,}",
                f"{row.training.words_per_second:,.0f}",
                duration(row.processor_seconds),
            ]
        return [heading, *lines.values()]

    def notes(self) -> list[str]:
        """What the figures are."""
        lines = [
            f"{self.budget}. Perplexity: after the last epoch. Words: target subwords a second of the clock while "
            "training, median; processor time: of the training.",
        ]
        if any(row.differs(metric) for row in self.figures for metric in METRICS):
            lines[0] += f" *: differs from {self.baseline}, paired bootstrap, p < {SIGNIFICANT}."
        for key, name in METRICS.items():
            for signature in sorted({row.scores[key]["signature"] for row in self.figures}):
                lines.append(f"{name}: {signature}")
        return lines

    def as_text(self) -> str:
        """For the terminal."""
        return "\n\n".join([self.title, text_table(self.cells()), "\n".join(self.notes())])

    def as_markdown(self, pictures: Sequence[str] = ()) -> str:
        """A document.

        Args:
            pictures: the names of pictures beside it
        """
        own = [["row", "its own options of fairseq-train"]]
        own += [[row.name, f"`{row.options}`" if row.options else ""] for row in self.figures]
        parts = [f"# {self.title}", markdown_table(self.cells()), *self.notes(), markdown_table(own)]
        circumstances: dict[str, list[str]] = {}
        for row in self.figures:
            circumstances.setdefault(facts(row.trained), []).append(row.name)
        parts += [f"Trained ({', '.join(names)}): {told}." for told, names in circumstances.items()]
        parts.append(f"{facts(self.about)}.")
        parts += [f"![{self.title}]({picture})" for picture in pictures]
        return "\n\n".join(parts) + "\n"


def make_table(recipe: Recipe, rows: Sequence[RowFolder], reference: Path, about: Mapping[str, str]) -> Table:
    """Score the rows that are finished.

    Args:
        rows: in the table's order
        reference: running text of what they translated
        about: what else to tell of the table

    Raises:
        UserError: no row is finished, or what one left does not fit the others or the reference
    """
    finished = [row for row in rows if row.finished]
    if not finished:
        raise UserError(f"{recipe.title}: no row is finished: see the logs of the rows")
    language = recipe.langs[1]
    expected = list(read_lines(reference))
    check_tokenization(expected, False, str(reference))
    texts = {row.name: running_text(row.translation, len(expected), language) for row in finished}
    baseline = texts.get(recipe.baseline)
    figures = []
    for row in finished:
        check_updates(row.log, recipe.updates_per_epoch)
        compared = baseline is not None and row.name != recipe.baseline
        figures.append(
            Figures(
                name=row.name,
                options=" ".join(recipe.rows[row.name]),
                training=read_training(row.log, recipe.max_epoch),
                processor_seconds=row.processor_seconds,
                trained=row.trained,
                scores=detokenized_scores(texts[row.name], expected, language),
                bootstrap=paired_bootstrap(texts[row.name], baseline, expected, language) if compared else None,  # type: ignore[arg-type]
            )
        )
    return Table(
        title=recipe.title,
        baseline=recipe.baseline,
        budget=f"{recipe.max_epoch} epochs of {recipe.updates_per_epoch} updates for every row, seed {recipe.seed}",
        about=dict(about),
        figures=figures,
        names=list(recipe.rows),
    )


def running_text(path: Path, count: int, language: str) -> list[str]:
    """The translations in a file of fairseq-generate's as running text, in the order of the reference.

    Raises:
        UserError: a translation is missing, or is no Moses tokens in subword-nmt's subwords
    """
    words = undo_subwords(in_order(read_generate_output([path]), count), "subword_nmt", str(path))
    check_tokenization(words, True, str(path))
    moses = Moses(language)
    return [moses.text(line) for line in words]


def duration(seconds: float) -> str:
    """In hours or minutes."""
    return f"{seconds / 3600:.2f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
