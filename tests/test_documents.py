"""The documents are short, their links work, and their figures are in committed files.

A marker ``<!-- FILE NAME -->`` before a table says where its figures are: NAME in FILE, relative to the document.
Without NAME, FILE is the JSON of a table of variants.
"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
LOG = EXAMPLES / "LOG.md"
READMES = [ROOT / "README.md", *sorted(EXAMPLES.glob("*/README.md"))]
DOCUMENTS = [
    *READMES,
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "examples/wmt14_en_de/PREPARING.md")),
]
MARKER = re.compile(r"<!-- (?P<file>\S+?)(?: (?P<name>[^\n]+))? -->")
DECIMAL = re.compile(r"(?<![\d.,])\d+\.\d+(?![\d.]*\d)")
ELSEWHERE = {"0.001", "0.05", "0.231", "1.5"}  # settings, and figures of other files than the paragraph's
PROVENANCE = {"command", "commit", "date", "machine"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def marked_tables():
    for document in [*READMES, LOG]:
        lines = document.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines):
            if marker := MARKER.fullmatch(line):
                end = next(end for end in range(number + 1, len(lines)) if not lines[end].startswith("|"))
                rows = [cells(row) for row in lines[number + 1 : end] if not re.fullmatch(r"[| -]+", row)]
                place = f"{name_of(document)}:{number + 1}"
                yield pytest.param(document.parent / marker["file"], marker["name"], rows, id=place)


def cells(row: str) -> list[str]:
    return [cell.strip().replace("**", "") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def variants(file: Path) -> list[list[str]]:
    """Return the rows of a table of variants, from the JSON that ``resmlp-mt ablate`` wrote."""
    rows = []
    for row in json.loads(file.read_text(encoding="utf-8"))["figures"]:
        training, scores = row["training"], []
        for metric in "sacrebleu", "chrf2":
            differs = row["bootstrap"] is not None and row["bootstrap"][metric]["p_value"] < 0.05
            scores.append(f"{row['scores'][metric]['score']:.1f}{'*' if differs else ''}")
        numbers = f"{training['parameters']:,}", f"{training['words_per_second']:,.0f}"
        minutes = f"{row['processor_seconds'] / 60:.1f} min"
        rows.append([row["name"], f"{training['perplexity']:.2f}", *scores, *numbers, minutes])
    return rows


@pytest.mark.parametrize(("file", "name", "rows"), list(marked_tables()))
def test_a_table_is_that_of_its_file(file, name, rows):
    if name is None:
        assert rows[1:] == variants(file)
        return
    table = json.loads(file.read_text(encoding="utf-8"))[name]
    assert table.keys() >= PROVENANCE and all(table[key] for key in PROVENANCE)
    assert rows == [[rows[0][0], *table["columns"]], *([row, *values] for row, values in table["rows"].items())]


def test_every_table_of_results_is_shown():
    shown = {(param.values[0].resolve(), param.values[1]) for param in marked_tables()}
    for file in EXAMPLES.glob("*/results.json"):
        assert {(file, name) for name in json.loads(file.read_text(encoding="utf-8"))} <= shown


def prose(text: str) -> str:
    """Return a text without code, tables, addresses of links and version numbers."""
    text = re.sub(r"^\|[^\n]*$|`[^`]*`|\]\([^)]*\)", " ", text, flags=re.M)
    return re.sub(
        r"[Pp]ython [\d. to]+|(torch|timm|arXiv|transformers|scikit-learn|Tested are) [\d.]+( and [\d.]+)?", " ", text
    )


@pytest.mark.parametrize("document", READMES, ids=name_of)
def test_a_figure_in_a_sentence_stands_in_a_committed_file(document):
    """The file is one that the paragraph links, by itself or by its document; if it links none, one of all linked."""

    def linked(text):
        links = [(document.parent / link).resolve() for link in re.findall(r"\]\((?!http)([^)#]+)", text)]
        files = {path if path.suffix == ".json" else path.parent / "results.json" for path in links}
        return [file for file in files if file.exists()]

    text, own = re.sub(r"```.*?```", " ", document.read_text(encoding="utf-8"), flags=re.S), document.parent
    for paragraph in re.split(r"\n\s*\n|\n(?=- )", text):
        files = [*own.glob("results.json"), *(linked(paragraph) or linked(text))]
        known = ELSEWHERE.union(*(DECIMAL.findall(file.read_text(encoding="utf-8")) for file in files))
        assert [number for number in DECIMAL.findall(prose(paragraph)) if number not in known] == [], paragraph


def test_documents_are_short():
    lines = {name_of(readme): readme.read_text(encoding="utf-8").count("\n") for readme in READMES}
    assert lines.pop("README.md") <= 150
    assert max(lines.values()) <= 90, lines
    words = (word for document in DOCUMENTS for word in document.read_text(encoding="utf-8").split())
    assert sum(bool(re.search(r"\w", word)) for word in words) <= 15_000


@pytest.mark.parametrize("document", [*DOCUMENTS, LOG], ids=name_of)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", document.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        file = (document.parent / path) if path else document
        assert file.exists(), target
        headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M) if anchor else []
        assert not anchor or anchor in [
            re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
        ], target
