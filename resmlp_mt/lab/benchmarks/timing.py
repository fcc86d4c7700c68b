"""Times of several systems, taken in turns, and what they say."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from torch.utils.benchmark import timer  # waits for the GPU where there is one

Times = dict[str, list[list[float]]]
"""By system, round and piece of work: seconds."""


@dataclass(frozen=True)
class Spread:
    """The median of a sample and its quartiles, by linear interpolation."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> "Spread":
        return Spread(*np.quantile(values, (0.5, 0.25, 0.75)).tolist())


def bracketed(spread: Spread, digits: int = 0) -> str:
    """``median [low - high]``"""
    return f"{spread.median:,.{digits}f} [{spread.low:,.{digits}f} - {spread.high:,.{digits}f}]"


Name = TypeVar("Name")


def turns(names: Sequence[Name], pieces: int, rounds: int) -> Iterator[tuple[int, int, Name]]:
    """Whose turn it is: (round, piece, name), every name once a piece before the next piece begins.

    Every other round goes through the names backwards, so that nobody always runs behind the same one, or on a machine
    that slows down always later.
    """
    for number in range(rounds):
        for piece in range(pieces):
            for name in names if number % 2 == 0 else reversed(names):
                yield number, piece, name


def timed(work: Callable[[int], object]) -> Callable[[int], float]:
    """The seconds that a piece of work takes in this process."""

    def seconds(piece: int) -> float:
        start = timer()
        work(piece)
        return timer() - start

    return seconds


def measure(work: Mapping[str, Callable[[int], float]], pieces: int, rounds: int, warmup: int) -> Times:
    """Let every system do the same pieces of work, in turns, after rounds that do not count.

    Args:
        work: by system, what does piece number n, and the seconds that this took
    """
    names = list(work)
    for _, piece, name in turns(names, pieces, warmup):
        work[name](piece)
    times: Times = {name: [[0.0] * pieces for _ in range(rounds)] for name in names}
    for number, piece, name in turns(names, pieces, rounds):
        times[name][number][piece] = work[name](piece)
    return times


def per_second(amount: float, times: Sequence[Sequence[float]]) -> Spread:
    """Amounts of work a second over the rounds; ``amount`` is that of all pieces together."""
    return Spread.of([amount / sum(pieces) for pieces in times])


def speed_ratio(times: Sequence[Sequence[float]], baseline: Sequence[Sequence[float]]) -> Spread:
    """How many times as fast as the baseline, round by round, all pieces together."""
    return Spread.of([sum(theirs) / sum(ours) for ours, theirs in zip(times, baseline, strict=True)])


def latency(times: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Percentiles 50 and 99 of the seconds of a piece, over all rounds."""
    median, most = np.quantile([each for pieces in times for each in pieces], (0.5, 0.99)).tolist()
    return median, most
