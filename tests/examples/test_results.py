"""Every measured table in a README is that of a committed file.

A marker before a table, ``<!-- FILE NAME -->``, says where: FILE beside the README, NAME in it. A marker without a
name, ``<!-- FILE -->``, says that every number of the table stands in FILE.
"""

import json
import re
from pathlib import Path

import pytest

from resmlp_mt.lab.benchmarks.measuring import Measurement, Spread
from resmlp_mt.lab.benchmarks.report import Run, Section, as_markdown

ROOT = Path(__file__).parents[2]
READMES = [ROOT / "README.md", *sorted(ROOT.glob("examples/*/README.md"))]
MARKER = re.compile(r"<!-- (?P<file>\S+)(?: (?P<name>[^\n]+))? -->")
PROVENANCE = {"command", "commit", "date", "machine"}


def marked_tables():
    for readme in READMES:
        lines = readme.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines):
            marker = MARKER.fullmatch(line)
            if marker:
                end = next(end for end in range(number + 1, len(lines)) if not lines[end].startswith("|"))
                rows = [cells(row) for row in lines[number + 1 : end] if not re.fullmatch(r"[| -]+", row)]
                yield pytest.param(readme.parent / marker["file"], marker["name"], rows, id=f"{readme}:{number + 1}")


def cells(row: str) -> list[str]:
    return [cell.strip().replace("**", "") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


@pytest.mark.parametrize(("file", "name", "rows"), list(marked_tables()))
def test_the_table_is_that_of_its_file(file, name, rows):
    if name is None:
        known = set(re.findall(r"\d[\d,.]*\d|\d", file.read_text(encoding="utf-8")))
        shown = {number for row in rows[1:] for cell in row[1:] for number in re.findall(r"\d[\d,.]*\d|\d", cell)}
        assert shown and not shown - known
        return
    table = json.loads(file.read_text(encoding="utf-8"))[name]
    assert table.keys() >= PROVENANCE and all(table[key] for key in PROVENANCE)
    assert rows == [[rows[0][0], *table["columns"]], *([row, *values] for row, values in table["rows"].items())]


def test_every_table_of_results_is_shown():
    shown = {(param.values[0], param.values[1]) for param in marked_tables()}
    for file in ROOT.glob("examples/*/results.json"):
        assert {(file, name) for name in json.loads(file.read_text(encoding="utf-8"))} <= shown


@pytest.mark.parametrize("name", ["variants", "table5"])
def test_the_tables_of_variants_are_those_of_their_files(name):
    folder = ROOT / "examples" / "ablations"
    section = (folder / "README.md").read_text(encoding="utf-8").split(f"### {name}.yaml\n")[1].split("\n![")[0]
    shown = [cells(row) for row in section.split("\n") if re.match(r"\| \S.*\|$", row) and "---" not in row]
    expected = []
    for row in json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["figures"]:
        training, scores = row["training"], []
        for metric in "sacrebleu", "chrf2":
            differs = row["bootstrap"] is not None and row["bootstrap"][metric]["p_value"] < 0.05
            scores.append(f"{row['scores'][metric]['score']:.1f}{'*' if differs else ''}")
        numbers = f"{training['parameters']:,}", f"{training['words_per_second']:,.0f}"
        minutes = f"{row['processor_seconds'] / 60:.1f} min"
        expected.append([row["name"], f"{training['perplexity']:.2f}", *scores, *numbers, minutes])
    assert shown == expected


def benchmark(path: Path) -> Run:
    found = json.loads(path.read_text(encoding="utf-8"))
    for section in found["sections"]:
        for row in section["rows"]:
            row |= {"rate": Spread(**row["rate"]), "ratio": Spread(**row["ratio"])}
        section["rows"] = [Measurement(**row) for row in section["rows"]]
    return Run(found["command"], found["date"], [Section(**section) for section in found["sections"]])


@pytest.mark.parametrize("name", ["benchmarks", "training"])
def test_the_benchmarks_are_those_of_their_file(name):
    shown = {"benchmarks": "BENCHMARKS.md", "training": "examples/benchmarks/training.md"}[name]
    document = (ROOT / shown).read_text(encoding="utf-8")
    pictures = re.findall(r"!\[.*\]\((.*)\)", document)
    assert as_markdown(benchmark(ROOT / f"examples/benchmarks/{name}.json"), pictures) == document
