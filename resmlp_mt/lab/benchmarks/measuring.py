"""How all speeds are measured: systems take turns, round by round, on the same work; statistics of their times."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch.utils.benchmark import timer  # waits for the GPU where there is one

from resmlp_mt.lab.benchmarks.systems import Comparison, Shape

Times = list[list[float]]
"""Seconds of each piece of work in each round."""


@dataclass(frozen=True)
class Quartiles:
    """The median of a sample and its quartiles, by linear interpolation."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> "Quartiles":
        return Quartiles(*np.quantile(values, (0.5, 0.25, 0.75)).tolist())

    def __format__(self, digits: str) -> str:
        return f"{self.median:{digits}} [{self.low:{digits}} - {self.high:{digits}}]"


def turns(names: Sequence[str], pieces: int, rounds: int) -> Iterator[tuple[int, int, str]]:
    """Yield whose turn it is, as (round, piece, name): every name does a piece before the next piece begins."""
    for number in range(rounds):
        for piece in range(pieces):  # every other round backwards: none always follows the same one
            for name in names if number % 2 == 0 else reversed(names):
                yield number, piece, name


def timed(work: Callable[[int], object]) -> Callable[[int], float]:
    def seconds(piece: int) -> float:
        start = timer()
        work(piece)
        return timer() - start

    return seconds


def measure(work: Mapping[str, Callable[[int], float]], pieces: int, rounds: int, warmup: int) -> dict[str, Times]:
    """Let every system do the same pieces of work, in turns; ``work`` does piece number n and returns its seconds."""
    names = list(work)
    for _, piece, name in turns(names, pieces, warmup):
        work[name](piece)
    times: dict[str, Times] = {name: [[0.0] * pieces for _ in range(rounds)] for name in names}
    for number, piece, name in turns(names, pieces, rounds):
        times[name][number][piece] = work[name](piece)
    return times


def per_second(amount: float, times: Times) -> Quartiles:
    """Return the work per second over the rounds; ``amount`` is the work of all pieces together."""
    return Quartiles.of([amount / sum(pieces) for pieces in times])


def speed_ratio(times: Times, baseline: Times) -> Quartiles:
    """Return how many times as fast as the baseline a system is, round by round, all pieces together."""
    return Quartiles.of([sum(theirs) / sum(ours) for ours, theirs in zip(times, baseline, strict=True)])


def latency(times: Times) -> tuple[float, float]:
    """Percentiles 50 and 99 of the seconds of a piece, over all rounds."""
    median, most = np.quantile([each for pieces in times for each in pieces], (0.5, 0.99)).tolist()
    return median, most


@dataclass(frozen=True)
class Measurement:
    system: str
    workload: str
    length: int  # in subwords with </s>
    sentences: int
    batch_tokens: int
    rate: Quartiles  # target tokens a second, subwords with </s>
    ratio: Quartiles  # the speed over the baseline's, round by round
    flop_ratio: float | None = None  # the ratio if the time depended on FLOPs alone
    flops: float | None = None  # per token
    memory: int | None = None  # bytes, with a batch of batch_tokens
    latency: tuple[float, float] | None = None  # percentiles 50 and 99 of seconds, where a batch is one sentence
    seconds: Times | None = None

    @property
    def memory_per_token(self) -> float | None:
        """Bytes per token, including the memory of the model itself."""
        return None if self.memory is None else self.memory / self.batch_tokens


def compare(
    comparison: Comparison,
    shape: Shape,
    tokens: Sequence[int],
    work: Mapping[str, Callable[[int], float]],
    flops: Mapping[str, float | None],
    peaks: Mapping[str, Callable[[], int]],
) -> list[Measurement]:
    """Time the systems on batches of a shape; ``tokens``: the target tokens of each of them.

    ``work`` is that of ``measure``, ``peaks`` find the peak memory; all mappings are by system.
    """
    times = measure(work, len(tokens), comparison.rounds, comparison.warmup)
    theirs = flops[comparison.baseline]
    batch = str(shape), shape.length, shape.sentences, tokens[-1]
    return [
        Measurement(
            name,
            *batch,
            rate=per_second(sum(tokens), times[name]),
            ratio=speed_ratio(times[name], times[comparison.baseline]),
            flop_ratio=theirs / ours if ours and theirs else None,
            flops=ours,
            memory=peaks[name]() if comparison.memory else None,
            latency=latency(times[name]) if shape.sentences == 1 else None,
            seconds=times[name],
        )
        for name, ours in flops.items()
    ]
