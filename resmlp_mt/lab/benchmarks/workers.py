"""Several processes that train together, as fairseq does it, beside one alone."""

import tempfile
from collections.abc import Iterator, Sequence

import torch
from fairseq.distributed.utils import distributed_init
from torch.utils.benchmark import timer

from resmlp_mt.data.dictionaries import made_up_dictionary
from resmlp_mt.lab.benchmarks.batches import Shape, random_batch
from resmlp_mt.lab.benchmarks.comparison import Comparison, Measurement
from resmlp_mt.lab.benchmarks.processes import fresh_processes
from resmlp_mt.lab.benchmarks.systems import System
from resmlp_mt.lab.benchmarks.timing import per_second, speed_ratio, turns
from resmlp_mt.lab.benchmarks.training import Training

STEPS = 3
"""that are timed in a row"""


def train_together(comparison: Comparison, shapes: Sequence[Shape], processes: int) -> Iterator[Measurement]:
    """Time the training of every system by one process and by several, each with batches of its own.

    Every round starts processes afresh. The ratio is that of several to one, of the same system; as many processes as
    there are at best.
    """
    for shape in shapes:
        tokens = (
            STEPS * random_batch(shape, comparison.padding, made_up_dictionary(comparison.size.vocabulary))["ntokens"]
        )
        for system in comparison.systems:
            # seconds a batch: several processes do several batches at a time
            seconds: dict[int, list[list[float]]] = {1: [], processes: []}
            for _, _, count in turns(list(seconds), 1, comparison.rounds):
                seconds[count].append([time_steps(comparison, system, shape, count) / count])
            for count, times in seconds.items():
                yield Measurement(
                    f"{system.name}, {count} process{'es' if count > 1 else ''}",
                    str(shape),
                    shape.length,
                    shape.sentences,
                    tokens // STEPS,
                    per_second(tokens, times),
                    speed_ratio(times, seconds[1]),
                    flop_ratio=float(count),
                    flops=None,
                    memory=None,
                    latency=None,
                    seconds=times,
                )


def time_steps(comparison: Comparison, system: System, shape: Shape, processes: int) -> float:
    """Seconds that so many processes take for their steps together."""
    with tempfile.TemporaryDirectory() as folder, fresh_processes(processes) as executor:
        meeting = f"file://{folder}/meeting"
        ranks = [
            executor.submit(_steps, comparison, system, shape, processes, rank, meeting) for rank in range(processes)
        ]
        return max(rank.result() for rank in ranks)


def _steps(comparison: Comparison, system: System, shape: Shape, processes: int, rank: int, meeting: str) -> float:
    comparison.conditions.apply()
    arguments: list[str] = []
    if processes > 1:
        on_gpu = comparison.conditions.device == "cuda"
        # torch's DistributedDataParallel as fairseq calls it takes GPUs only; the other is fairseq's own
        backends = ("nccl", "pytorch_ddp") if on_gpu else ("gloo", "legacy_ddp")
        arguments = [
            "--distributed-world-size", str(processes), "--distributed-rank", str(rank),
            "--distributed-init-method", meeting, "--distributed-no-spawn",
            "--distributed-backend", backends[0], "--ddp-backend", backends[1], "--local_rank", str(rank),
        ]  # fmt: skip
        if on_gpu:
            torch.cuda.set_device(rank)
        distributed_init(system.config(comparison.size, comparison.conditions, arguments))
    training = Training(system, comparison.size, comparison.conditions, arguments)
    batch = random_batch(shape, comparison.padding, training.dictionary)
    for _ in range(max(1, comparison.warmup)):  # the first step also connects the processes
        training.step(batch)
    start = timer()
    for _ in range(STEPS):
        training.step(batch)
    return timer() - start
