"""What was measured, as tables for the terminal, as Markdown, and as what becomes JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from resmlp_mt.common.tables import facts, markdown_table, text_table
from resmlp_mt.lab.benchmarks.measuring import Measurement, bracketed

EXPLANATION = """\
Every figure is a median, with the quartiles in brackets. Systems take turns on the same batches. "Times as fast" is a
ratio formed round by round from measurements that follow each other; "FLOPs alone" is what it would be if only matrix
products took time. Tokens are target subwords with `</s>`, padding not counted. Memory is the most that a process takes
for model, optimizer and batch; "kB a token" is that divided by the tokens of the batch. Generation forces every
translation of a batch to the same length. In pictures over lengths the dashed line is the time a token if it grew from
the shortest length on as the FLOPs of a token do. A measured line above it: time grows faster than FLOPs."""
MOST = 12  # operations that a profile shows

Row = TypeVar("Row")
Cells = list[list[str]]


@dataclass(frozen=True)
class Section:
    """Rows of one table and one picture; ``by`` changes from workload to workload: ``length`` or ``sentences``."""

    title: str
    kind: str
    by: str
    baseline: str
    settings: dict[str, str]
    machine: dict[str, str]
    notes: list[str] = field(default_factory=list)
    rows: list[Measurement] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """All that one call of the benchmark found."""

    command: str
    date: str
    sections: list[Section]


def cells(rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str]]) -> Cells:
    """A header and a line a row; columns that would be empty are left out."""
    filled = [[name, *map(show, rows)] for name, show in columns.items()]
    return [list(line) for line in zip(*(column for column in filled if any(column[1:])), strict=True)]


def milliseconds(latency: tuple[float, float] | None, number: int) -> str:
    return "" if latency is None else f"{1e3 * latency[number]:.1f}"


def table(section: Section) -> Cells:
    """The figures of a section."""
    theirs = {row.workload: row.memory for row in section.rows if row.system == section.baseline}

    def memory_ratio(row: Measurement) -> str:
        baseline = theirs.get(row.workload)
        return f"{row.memory / baseline:.2f}" if row.memory and baseline else ""

    columns: dict[str, Callable[[Measurement], str]] = {
        "length x sentences": lambda row: row.workload,
        "system": lambda row: row.system,
        "tokens/s": lambda row: bracketed(row.rate),
        f"times as fast as {section.baseline}": lambda row: bracketed(row.ratio, 2),
        "FLOPs alone": lambda row: "" if row.flop_ratio is None else f"{row.flop_ratio:.2f}",
        "sentences/s": lambda row: f"{row.rate.median / row.length:.2f}" if section.kind == "generation" else "",
        "p50 ms": lambda row: milliseconds(row.latency, 0),
        "p99 ms": lambda row: milliseconds(row.latency, 1),
        "peak MB": lambda row: "" if row.memory is None else f"{row.memory / 1e6:,.0f}",
        f"of {section.baseline}'s": memory_ratio,
        "kB a token": lambda row: "" if row.memory_per_token is None else f"{row.memory_per_token / 1e3:,.0f}",
    }
    return cells(section.rows, columns)


def profile_table(title: str, spent: Mapping[str, Mapping[str, float]]) -> Cells:
    """A header and a line for each of the operations that take most; ``spent`` has their seconds by system."""
    everything = {name for each in spent.values() for name in each}
    names = sorted(everything, key=lambda name: (-max(each.get(name, 0.0) for each in spent.values()), name))
    lines = {name: [each.get(name, 0.0) for each in spent.values()] for name in names[:MOST]}
    lines["all others"] = [sum(each.get(name, 0.0) for name in names[MOST:]) for each in spent.values()]
    lines["together"] = [sum(each.values()) for each in spent.values()]
    return [
        [f"{title}: ms in", *spent],
        *([name, *(f"{1e3 * seconds:,.1f}" for seconds in each)] for name, each in lines.items()),
    ]


def profiles(section: Section) -> list[Cells]:
    """Where each system's time goes, a table a workload."""
    tables = []
    for workload in dict.fromkeys(row.workload for row in section.rows):
        spent = {row.system: row.operations for row in section.rows if row.workload == workload and row.operations}
        if spent:
            tables.append(profile_table(workload, spent))
    return tables


def as_text(section: Section) -> str:
    """For the terminal."""
    parts = [text_table(table(section), left=2), *map(text_table, profiles(section))]
    head = [section.title, facts(section.settings), facts(section.machine), *section.notes]
    return "\n\n".join(["\n".join(head), *parts])


def as_markdown(run: Run, pictures: Sequence[str]) -> str:
    """A document; ``pictures`` are as seen from it, one a section or none."""
    parts = ["# Benchmarks", f"Made on {run.date} by", f"    {run.command}", EXPLANATION]
    for number, section in enumerate(run.sections):
        parts += [f"## {section.title}", f"{facts(section.settings)}.", f"On {facts(section.machine)}."]
        parts += [*section.notes, *map(markdown_table, (table(section), *profiles(section)))]
        if pictures:
            parts.append(f"![{section.title}]({pictures[number]})")
    return "\n\n".join(parts) + "\n"
