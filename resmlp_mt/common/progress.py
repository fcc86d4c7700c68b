"""How far a step is: a bar on a terminal, elsewhere a plain line every so often."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

from tqdm import tqdm  # type: ignore[import-untyped]

Item = TypeVar("Item")
PAUSE = 30.0  # seconds between plain lines
tqdm.monitor_interval = 0  # no monitor thread: if it held a lock while workers are forked, they would wait for ever


class Progress:
    """Counts pairs and shows them on stderr, with pairs a second, and what was dropped and why.

    Args:
        name: the step's
        total: pairs to come, where that is known
        unit: what is counted, where it is not pairs
    """

    def __init__(self, name: str, total: int | None = None, unit: str = "pairs"):
        self.pairs = 0
        self.dropped: Counter[str] = Counter()
        self._name = name
        self._unit = unit
        self._total = total
        self._begun = self._told = time.monotonic()
        self._stream = sys.stderr  # kept: sys.stderr may be redirected while a library works; None: closed by the shell
        self._bar = tqdm(desc=name, total=total, unit=f" {unit}", disable=not (self._stream and self._stream.isatty()))

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def add(self, pairs: int, dropped: Mapping[str, int] | None = None) -> None:
        """Count some more."""
        self.pairs += pairs
        self.dropped.update(dropped or {})
        if self._bar.disable:
            self._tell()
        else:
            why = reasons(self.dropped)
            self._bar.set_postfix_str(f"dropped: {why}" if why else "", refresh=False)
            self._bar.update(pairs)

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told >= PAUSE:
            self._told = now
            print(f"{self._name}: {self._so_far(now - self._begun)}", file=self._stream, flush=True)

    def _so_far(self, seconds: float) -> str:
        if not self.pairs:
            return f"{seconds:,.0f} s so far"
        rate = self.pairs / seconds
        of = f" of {self._total:,}" if self._total else ""
        tail = f", dropped: {why}" if (why := reasons(self.dropped)) else ""
        return f"{self.pairs:,}{of} {self._unit}, {rate:,.{int(rate < 100)}f} {self._unit}/s{tail}"

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


def in_bytes(number: int) -> str:
    """``"2.6 GB"``."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"
