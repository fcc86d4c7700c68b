"""Tables of the gated model, Transformer and DynamicConv at each budget, from the committed figures of trainings.

`python examples/ablations/summary.py` writes them into results.json here, and into the documents that show them.
"""

import json
import re
import statistics
from functools import cache
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import one_line_errors
from resmlp_mt.common.files import write_json, write_whole
from resmlp_mt.common.progress import markdown_table
from resmlp_mt.lab.ablations.table import Spread, difference

HERE = Path(__file__).parent
SYSTEMS = "gated", "Transformer", "DynamicConv"
PAIRS = ("gated", "Transformer"), ("DynamicConv", "Transformer"), ("gated", "DynamicConv")
Budgets = dict[str, tuple[str, str, tuple[str, ...]]]  # file of figures on val, file of errors ("": not shown), rows
BUDGETS: Budgets = {  # on Multi30k
    "12 epochs": (
        *("budget-1-more", "../log/errors-2026-11-27"),
        ("gated-attention-dropout", "transformer", "dynamicconv-whole-kernels"),
    ),
    "24 epochs": ("budget-2", "../log/errors-2026-11-28", ("gated", "transformer", "dynamicconv")),
    "48 epochs": (
        *("budget-3", "../log/errors-2026-11-30"),
        ("gated-more-dropout", "transformer-more-dropout", "dynamicconv-more-dropout"),
    ),
}
TATOEBA: Budgets = {"10 epochs": ("tatoeba-long", "", ("gated", "transformer", "dynamicconv"))}
LARGEST = {"size": "w256", "pairs": 160_000}  # the cell of the study on Tatoeba
METRICS = "sacrebleu", "chrf2"
RIVALS = HERE.parent / "rivals/README.md"
SHOWN = {  # name in results.json: the text of the first cell, and the document that shows the table
    "by budget": ("means", RIVALS),
    "by corpus": ("sacreBLEU, means", HERE.parents[1] / "README.md"),
    "errors": ("test, 1,000 sentences, means", RIVALS),
    "Tatoeba": ("means", HERE.parent / "tatoeba/README.md"),
}

Values = list[float]  # of a system, one for each seed


@cache
def read(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def trainings(name: str, row: str) -> list[Any]:
    return [each for each in read(name)["figures"] if each["name"] == row]


def scores(figures: list[Any], metric: str) -> Values:
    return [each["scores"][metric]["score"] for each in figures]


def minutes(figures: list[Any]) -> str:
    """Format the processor times of trainings: mean, least and most, and the processors."""
    times = [each["processor_seconds"] / 60 for each in figures]
    processors = sorted({re.sub(r"\(R\)|Intel|AMD|Processor", "", each["trained"]["processor"]) for each in figures})
    on = ", ".join(map(str.strip, processors))
    span = f" ({min(times):.0f} to {max(times):.0f})" if len(times) > 1 else ""
    return f"{statistics.fmean(times):.0f} min{span}, {on}"


def apart(one: Values, other: Values) -> str:
    """Format the difference of the means with its 95 % interval; bold if the interval does not contain zero."""
    told = difference(one, other)
    return f"**{str(told).rstrip('*')}**" if told.significant else str(told)


def of_budgets(budgets: Budgets) -> dict[str, list[str]]:
    """Return rows for each budget of a corpus: the systems, then their differences; figures on val, then on test.

    A system without a finished training has no rows.
    """
    systems, pairs = {}, {}
    for budget, (name, _, rows) in budgets.items():
        columns = {}
        for system, row in zip(SYSTEMS, rows, strict=True):
            val, test = trainings(name, row), trainings(f"{name}-test", row)
            if not val:
                continue
            columns[system] = [
                [each["training"]["perplexity"] for each in val],
                *(scores(figures, metric) for figures in (val, test) for metric in METRICS),
            ]
            cells = [f"{Spread.of(each):.{1 if number else 2}f}" for number, each in enumerate(columns[system])]
            parameters = f"{val[0]['training']['parameters']:,}"
            systems[f"{system}, {budget}"] = [str(len(val)), *cells, parameters, minutes(val)]
        for one, other in (pair for pair in PAIRS if columns.keys() >= set(pair)):
            pairs[f"{one} minus {other}, {budget}"] = ["", *map(apart, columns[one], columns[other]), "", ""]
    return {**systems, **pairs}


def bleu(corpus: str, valid: str, budgets: Budgets) -> dict[str, list[Values]]:
    """Return BLEU of each system's trainings, by corpus, subset and budget; ``valid``: the validation set's name."""
    return {
        f"{corpus} {part}, {budget}": [scores(trainings(file, row), "sacrebleu") for row in rows]
        for budget, (name, _, rows) in budgets.items()
        for part, file in ((valid, name), ("test", f"{name}-test"))
    }


def of_corpora() -> dict[str, list[str]]:
    """Return the rows of BLEU alone, for both corpora."""
    found = bleu("Multi30k", "val", BUDGETS)
    runs = [run for run in read("../scaling/tatoeba")["runs"] if LARGEST.items() <= run["cell"].items()]
    families = [[run["bleu"] for run in runs if run["cell"]["family"] == system.lower()] for system in SYSTEMS]
    found["Tatoeba valid, 7 epochs, wider MLPs"] = families
    found |= bleu("Tatoeba", "valid", TATOEBA)
    large = [scores(trainings("tatoeba-30m", system.lower()), "sacrebleu") for system in SYSTEMS]
    found["Tatoeba test, 10 epochs, 30 million parameters"] = large
    table = {}
    for name, (gated, *others) in found.items():
        cells = [f"{Spread.of(each):.1f}" if each else "not measured" for each in (gated, *others)]
        against = [apart(gated, each) if each else "" for each in others]
        seeds = [str(len(each)) for each in (gated, *others)]
        table[name] = [seeds[0] if len(set(seeds)) == 1 else ", ".join(seeds), *cells, *against]
    return table


def of_errors() -> dict[str, list[str]]:
    """Return the rows of the errors that errors.py counted."""
    table: dict[str, list[str]] = {}
    for budget, (_, file, rows) in BUDGETS.items():
        found = {name: cells for name, *cells in read(file)["table"]}
        table |= {f"{system}, {budget}": found[row] for system, row in zip(SYSTEMS, rows, strict=True) if row in found}
    return table


def show(document: Path, name: str, table: str) -> None:
    """Write a table after its marker in a document."""
    text = document.read_text(encoding="utf-8")
    shown = re.compile(rf"(<!-- \S*results\.json {name} -->\n)(?:\|[^\n]*\n)*")
    write_whole(document, shown.sub(lambda found: f"{found[1]}{table}\n", text))


def tables() -> dict[str, dict[str, list[str]]]:
    """Return the rows of each table, by its name in results.json."""
    return {
        "by budget": of_budgets(BUDGETS),
        "by corpus": of_corpora(),
        "errors": of_errors(),
        "Tatoeba": of_budgets(TATOEBA),
    }


def main() -> None:
    results = read("results")
    for name, rows in tables().items():
        heading, document = SHOWN[name]
        results[name]["rows"] = {row: [cell.strip("*") for cell in cells] for row, cells in rows.items()}
        lines = [[heading, *results[name]["columns"]], *([row, *cells] for row, cells in rows.items())]
        show(document, name, markdown_table(lines))
    write_json(HERE / "results.json", results)


if __name__ == "__main__":
    with one_line_errors():
        main()
