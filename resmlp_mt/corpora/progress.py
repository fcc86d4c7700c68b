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
tqdm.monitor_interval = 0  # no thread beside its bars: one that holds a lock while workers are forked leaves it held


class Progress:
    """Counts pairs and shows them on stderr, with pairs a second, and what was dropped and why.

    Args:
        name: the step's
        total: pairs to come, where that is known
    """

    def __init__(self, name: str, total: int | None = None):
        self.pairs = 0
        self.dropped: Counter[str] = Counter()
        self._name = name
        self._begun = self._told = time.monotonic()
        self._bar = tqdm(desc=name, total=total, unit=" pairs", disable=not sys.stderr.isatty())

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
        why = reasons(self.dropped)
        if self._bar.disable:
            now = time.monotonic()
            if now - self._told >= PAUSE:
                self._told = now
                rate = self.pairs / (now - self._begun)
                tail = f", dropped: {why}" if why else ""
                print(f"{self._name}: {self.pairs:,} pairs, {rate:,.0f} pairs/s{tail}", file=sys.stderr, flush=True)
        else:
            self._bar.set_postfix_str(f"dropped: {why}" if why else "", refresh=False)
            self._bar.update(pairs)

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
