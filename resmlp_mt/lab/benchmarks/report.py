"""Sections as a table for the terminal, as JSON and as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from resmlp_mt.common.tables import facts, markdown_table, text_table
from resmlp_mt.lab.benchmarks.comparison import Measurement, Section
from resmlp_mt.lab.benchmarks.profiling import profile_table
from resmlp_mt.lab.benchmarks.timing import bracketed

EXPLANATION = """\
Every figure is a median, with the quartiles in brackets. Systems take turns on the same batches. "Times as fast" is a
ratio formed round by round from measurements that follow each other; "FLOPs alone" is what it would be if only matrix
products took time. Tokens are target subwords with `</s>`, padding not counted. Memory is the most that a process takes
for model, optimizer and batch; "kB a token" is that divided by the tokens of the batch. Generation forces every
translation of a batch to the same length. In pictures over lengths the dashed line is the time a token if it grew from
the shortest length on as the FLOPs of a token do. A measured line above it: time grows faster than FLOPs."""


@dataclass(frozen=True)
class Run:
    """All that one call of the benchmark found."""

    command: str
    date: str
    sections: list[Section]


def table(section: Section) -> list[list[str]]:
    """A header and a line a row; columns that would be empty are left out."""
    theirs = {row.workload: row for row in section.rows if row.system == section.baseline}

    def memory_ratio(row: Measurement) -> str:
        baseline = theirs.get(row.workload)
        if row.memory and baseline and baseline.memory:
            return f"{row.memory / baseline.memory:.2f}"
        return ""

    columns = {
        "length x sentences": lambda row: row.workload,
        "system": lambda row: row.system,
        "tokens/s": lambda row: bracketed(row.rate),
        f"times as fast as {section.baseline}": lambda row: bracketed(row.ratio, 2),
        "FLOPs alone": lambda row: "" if row.flop_ratio is None else f"{row.flop_ratio:.2f}",
        "sentences/s": lambda row: f"{row.rate.median / row.length:.2f}" if section.kind == "generation" else "",
        "p50 ms": lambda row: "" if row.latency is None else f"{1e3 * row.latency[0]:.1f}",
        "p99 ms": lambda row: "" if row.latency is None else f"{1e3 * row.latency[1]:.1f}",
        "peak MB": lambda row: "" if row.memory is None else f"{row.memory / 1e6:,.0f}",
        f"of {section.baseline}'s": memory_ratio,
        "kB a token": lambda row: "" if row.memory_per_token is None else f"{row.memory_per_token / 1e3:,.0f}",
    }
    cells = [[name, *map(show, section.rows)] for name, show in columns.items()]
    return [list(line) for line in zip(*(column for column in cells if any(column[1:])), strict=True)]


def profiles(section: Section, most: int = 12) -> dict[str, list[list[str]]]:
    """By workload, where each system's time goes, as ``profile_table`` shows it."""
    tables = {}
    for workload in dict.fromkeys(row.workload for row in section.rows):
        rows = {row.system: row.operations for row in section.rows if row.workload == workload and row.operations}
        if rows:
            tables[workload] = profile_table(workload, rows, most)
    return tables


def as_text(section: Section) -> str:
    """For the terminal."""
    parts = [text_table(table(section), left=2), *map(text_table, profiles(section).values())]
    head = [section.title, facts(section.settings), facts(section.machine), *section.notes]
    return "\n\n".join(["\n".join(head), *parts])


def as_markdown(run: Run, pictures: Sequence[str]) -> str:
    """A document.

    Args:
        pictures: as seen from it, one a section or none
    """
    parts = ["# Benchmarks", f"Made on {run.date} by", f"    {run.command}", EXPLANATION]
    for number, section in enumerate(run.sections):
        parts += [f"## {section.title}", f"{facts(section.settings)}.", f"On {facts(section.machine)}."]
        parts += [*section.notes, *map(markdown_table, (table(section), *profiles(section).values()))]
        if pictures:
            parts.append(f"![{section.title}]({pictures[number]})")
    return "\n\n".join(parts) + "\n"
