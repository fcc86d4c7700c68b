"""What a comparison is told and what it finds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.analysis import flops
from resmlp_mt.lab.benchmarks.batches import Shape
from resmlp_mt.lab.benchmarks.systems import Conditions, Size, System
from resmlp_mt.lab.benchmarks.timing import Spread, latency, measure, per_second, speed_ratio


@dataclass(frozen=True)
class Comparison:
    """Which systems are compared, and how thoroughly.

    ``padding`` is how much of each batch is padding, ``rounds`` how often each is timed, after ``warmup`` rounds;
    ``memory`` and ``profile`` also find peak memory and where the time goes; ``sentences`` are those of a round.
    ``kind`` is ``training``, ``generation`` or ``workers``; ``by``, what changes from shape to shape, is ``length`` or
    ``sentences``.
    """

    systems: tuple[System, ...]
    shapes: tuple[Shape, ...] = ()
    kind: str = "generation"
    title: str = ""
    by: str = "sentences"
    baseline: str = "transformer"
    size: Size = field(default_factory=Size)
    conditions: Conditions = field(default_factory=Conditions)
    padding: float = 0.1
    rounds: int = 7
    warmup: int = 1
    memory: bool = True
    profile: bool = False
    sentences: int = 32

    def __post_init__(self) -> None:
        names = [system.name for system in self.systems]
        if self.baseline not in names:
            raise UserError(f"--baseline {self.baseline}: none of the systems: {', '.join(names)}")
        if len(set(names)) < len(names):
            raise UserError(f"a system is given twice: {', '.join(names)}")


@dataclass(frozen=True)
class Workload:
    """Batches that are timed one by one and counted together.

    ``length`` is in subwords with ``</s>``, the mean where sentences differ; ``sentences`` are those of a batch;
    ``tokens`` are target tokens of all batches, ``batch_tokens`` those of the last, which memory is found with.
    """

    label: str
    length: float
    sentences: int
    tokens: int
    pieces: int
    batch_tokens: int


@dataclass(frozen=True)
class Measurement:
    """One system on one workload.

    ``rate`` is in target tokens a second, subwords with ``</s>``; ``ratio`` is the speed over the baseline's, pair by
    pair; ``flop_ratio`` what it would be if FLOPs were all; ``flops`` is FLOPs a token; ``memory`` is in bytes, found
    with a batch of ``batch_tokens`` target tokens; ``latency`` has the percentiles 50 and 99 of the seconds that a
    sentence takes, where the batch is one sentence; ``seconds`` has what was timed, by round and batch; ``operations``
    those of the last batch, by PyTorch operation.
    """

    system: str
    workload: str
    length: float
    sentences: int
    batch_tokens: int
    rate: Spread
    ratio: Spread
    flop_ratio: float | None
    flops: float | None
    memory: int | None
    latency: tuple[float, float] | None
    seconds: list[list[float]]
    operations: dict[str, float] | None = None

    @property
    def memory_per_token(self) -> float | None:
        """Bytes, what the model itself takes included."""
        return None if self.memory is None else self.memory / self.batch_tokens


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


def compare(
    comparison: Comparison,
    workload: Workload,
    work: Mapping[str, Callable[[int], float]],
    flops_per_token: Mapping[str, float | None],
    peaks: Mapping[str, int],
    profile: Callable[[str], dict[str, float]],
) -> list[Measurement]:
    """Time the systems on a workload.

    Args:
        work: by system, what does piece number n, and the seconds that this took
        flops_per_token: by system, None where no formula is known
        peaks: by system, bytes; missing where nobody looked
        profile: where the time goes of a system's last piece; called if the comparison asks for it
    """
    times = measure(work, workload.pieces, comparison.rounds, comparison.warmup)
    theirs = flops_per_token[comparison.baseline]
    return [
        Measurement(
            name,
            workload.label,
            workload.length,
            workload.sentences,
            workload.batch_tokens,
            per_second(workload.tokens, seconds),
            speed_ratio(seconds, times[comparison.baseline]),
            flop_ratio=theirs / ours if ours and theirs else None,
            flops=ours,
            memory=peaks.get(name),
            latency=latency(seconds) if workload.sentences == 1 else None,
            seconds=seconds,
            operations=profile(name) if comparison.profile else None,
        )
        for name, seconds in times.items()
        for ours in [flops_per_token[name]]
    ]


def counted(config: Any, vocabulary: int) -> flops.TranslationModel | None:
    """The formula for a model's FLOPs, or None where the code has none."""
    try:
        return flops.of_options(config.model, vocabulary)
    except UserError:
        return None
