"""Which training pairs are worth keeping."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class PairFilter:
    """Limits on a training pair. Validation and test pairs are never filtered.

    Attributes:
        max_length: most subwords on a side (without the end-of-sentence token, which takes one position more)
        max_ratio: most times that one side may be longer than the other, in subwords; None: any
    """

    max_length: int = 250
    max_ratio: float | None = None

    def why_dropped(self, lengths: Iterable[int]) -> str | None:
        """``"empty"``, ``"too long"`` or ``"ratio"``; None for a pair to keep, whose sides have so many subwords."""
        short, long = sorted(lengths)
        if short == 0:
            return "empty"
        if long > self.max_length:
            return "too long"
        if self.max_ratio is not None and long > self.max_ratio * short:
            return "ratio"
        return None
