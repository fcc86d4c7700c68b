"""What a terminal shows: how far a step is, by a bar or elsewhere a line every so often, and tables of figures."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from tabulate import tabulate
from tqdm import tqdm  # type: ignore[import-untyped]

Item = TypeVar("Item")
Rows = Sequence[Sequence[str]]  # of cells, the first of them the heading
PAUSE = 30.0  # seconds between plain lines
tqdm.monitor_interval = 0  # no monitor thread: if it held a lock while workers are forked, they would wait for ever


class Progress(AbstractContextManager):
    """Counts pairs, or other units, of a step on stderr: how many of a total, how many a second, what was dropped."""

    def __init__(self, name: str, total: int | None = None, unit: str = "pairs"):
        self.pairs = 0
        self.dropped: Counter[str] = Counter()
        self._name, self._total, self._unit = name, total, unit
        self._begun = self._shown = time.monotonic()
        self._stream = sys.stderr  # kept: sys.stderr may be redirected while a library works; None: closed by the shell
        self._bar = tqdm(desc=name, total=total, unit=f" {unit}", disable=not (self._stream and self._stream.isatty()))

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def add(self, pairs: int, dropped: Mapping[str, int] | None = None) -> None:
        """Count some more."""
        self.pairs += pairs
        self.dropped.update(dropped or {})
        why = f"dropped: {reasons(self.dropped)}" if self.dropped else ""
        self._bar.set_postfix_str(why, refresh=False)
        self._bar.update(pairs)
        now = time.monotonic()
        if self._bar.disable and now - self._shown >= PAUSE:
            self._shown, seconds = now, now - self._begun
            rate = self.pairs / seconds
            of = f" of {self._total:,}" if self._total else ""
            counted = f"{self.pairs:,}{of} {self._unit}, {rate:,.{int(rate < 100)}f} {self._unit}/s"
            text = ", ".join(filter(None, [counted, why])) if self.pairs else f"{seconds:,.0f} s so far"
            print(f"{self._name}: {text}", file=self._stream, flush=True)

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items of a stream, each counted as one pair."""
        for item in items:
            yield item
            self.add(1)

    @property
    def outcome(self) -> dict[str, Any]:
        """How many pairs are left, and how many are not, by reason."""
        return {"kept": self.pairs - self.dropped.total(), "dropped": dict(sorted(self.dropped.items()))}


def reasons(dropped: Mapping[str, int]) -> str:
    """``"3 empty, 1 ratio"``."""
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(dropped.items()))


def text_table(rows: Rows, left: int = 1) -> str:
    """Columns side by side, so many from the first aligned at the left, the others at the right."""
    sides = ["left"] * left + ["right"] * (len(rows[0]) - left)
    return tabulate(rows, tablefmt="plain", colalign=sides, disable_numparse=True, preserve_whitespace=True)


def markdown_table(rows: Rows) -> str:
    """A table in Markdown. (tabulate's has blanks up to the widest cell: one long cell would change every line.)"""
    heading, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([heading, "|" + " --- |" * len(rows[0]), *body])
