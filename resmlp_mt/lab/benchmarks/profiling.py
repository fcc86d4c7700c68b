"""Where the time of a piece of work goes."""

from collections.abc import Callable, Mapping

import torch
from torch.profiler import ProfilerActivity
from torch.utils.benchmark import timer

OUTSIDE = "outside of operations"


def operations(work: Callable[[], object], device: str) -> dict[str, float]:
    """Seconds by PyTorch operation, those that it calls not counted, most first.

    On the CPU with what is spent outside of any, in Python and in the profiler itself, so that all adds up to the time
    that the work took; on CUDA the GPU's time alone.
    """
    on_gpu = device == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with torch.profiler.profile(activities=activities) as profile:
        start = timer()
        work()
        seconds = timer() - start
    attribute = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    spent = {event.key: 1e-6 * getattr(event, attribute) for event in profile.key_averages()}
    if not on_gpu:
        spent[OUTSIDE] = max(0.0, seconds - sum(spent.values()))
    return dict(sorted(spent.items(), key=lambda each: -each[1]))


def profile_table(title: str, rows: Mapping[str, Mapping[str, float]], most: int = 12) -> list[list[str]]:
    """A header and a line for each of the operations that take most.

    Args:
        title: of what was done
        rows: for each system what ``operations`` gave
    """
    everything = {name for spent in rows.values() for name in spent}
    names = sorted(everything, key=lambda name: (-max(spent.get(name, 0.0) for spent in rows.values()), name))
    spent_on = {name: [spent.get(name, 0.0) for spent in rows.values()] for name in names[:most]}
    spent_on["all others"] = [sum(spent.get(name, 0.0) for name in names[most:]) for spent in rows.values()]
    spent_on["together"] = [sum(spent.values()) for spent in rows.values()]
    lines = [[name, *(f"{1e3 * seconds:,.1f}" for seconds in each)] for name, each in spent_on.items()]
    return [[f"{title}: ms in", *rows], *lines]
