"""What a terminal shows: a step's progress (a bar, or plain lines if stderr is no terminal), and tables of figures."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from tabulate import tabulate
from tqdm import tqdm  # type: ignore[import-untyped]

Item = TypeVar("Item")
Rows = Sequence[Sequence[str]]  # rows of cells; the first row is the heading
PAUSE = 30.0  # seconds between plain lines
tqdm.monitor_interval = 0  # no monitor thread: if it held a lock while workers are forked, they would wait for ever


class Progress(AbstractContextManager):
    """A step's progress on stderr: how many pairs (or other units) of a total, how many a second, what was dropped."""

    def __init__(self, name: str, total: int | None = None, unit: str = "pairs"):
        self.pairs = 0
        self.dropped: Counter[str] = Counter()
        self._name, self._total, self._unit = name, total, unit
        self._begun = self._shown = time.monotonic()
        self._stream = sys.stderr  # kept: sys.stderr may be redirected while a library works
        self._bar = tqdm(desc=name, total=total, unit=f" {unit}", disable=not self._stream.isatty())

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def add(self, pairs: int, dropped: Mapping[str, int] | None = None) -> None:
        """Add to the number of pairs, and to the number of those dropped for each reason."""
        self.pairs += pairs
        self.dropped.update(dropped or {})
        why = f"dropped: {format_reasons(self.dropped)}" if self.dropped else ""
        self._bar.set_postfix_str(why, refresh=False)
        self._bar.update(pairs)
        now = time.monotonic()
        if self._bar.disable and now - self._shown >= PAUSE:
            self._shown, seconds = now, now - self._begun
            of = f" of {self._total:,}" if self._total else ""
            counted = f"{self.pairs:,}{of} {self._unit}, {self.pairs / seconds:,.1f} {self._unit}/s"
            text = ", ".join(filter(None, [counted, why])) if self.pairs else f"{seconds:,.0f} s so far"
            print(f"{self._name}: {text}", file=self._stream, flush=True)

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items of a stream, each counted as one pair."""
        for item in items:
            yield item
            self.add(1)

    @property
    def outcome(self) -> dict[str, Any]:
        """The number of pairs that were kept, and of those that were dropped for each reason."""
        return {"kept": self.pairs - self.dropped.total(), "dropped": dict(sorted(self.dropped.items()))}


def format_reasons(dropped: Mapping[str, int]) -> str:
    """Return the numbers of dropped pairs as text: ``"3 empty, 1 ratio"``."""
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(dropped.items()))


def text_table(rows: Rows, left: int = 1) -> str:
    """Return a table as plain text; the first ``left`` columns are aligned to the left, the others to the right."""
    sides = ["left"] * left + ["right"] * (len(rows[0]) - left)
    return tabulate(rows, tablefmt="plain", colalign=sides, disable_numparse=True, preserve_whitespace=True)


def markdown_table(rows: Rows) -> str:
    """Return a table in Markdown. (tabulate pads cells to the widest one: one long cell would change every line.)"""
    heading, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([heading, "|" + " --- |" * len(rows[0]), *body])
