#!/usr/bin/env python3
"""Compare the time of PyTorch's operators in a search step with the least that the processor needs, on one thread.

    python examples/benchmarks/operators.py --json operators.json

Each operator is timed with the sizes of Multi30k's model (width 256, 4,128 symbols), for one sentence (4 rows: its
beams) and for 64 (256 rows). The least time that the processor needs is: for a product, its FLOPs at the speed of a
large product of the same number type, or reading its weights once, whichever takes longer; for any other operator,
reading its input once. Reading is timed, too, as the maximum of every row.
"""

import argparse
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

from resmlp_mt.common.errors import one_line_errors
from resmlp_mt.common.files import write_json
from resmlp_mt.common.progress import text_table
from resmlp_mt.lab.benchmarks.measuring import Quartiles, measure, timed
from resmlp_mt.lab.machine import describe, made_by
from resmlp_mt.translate.precision import BFloat16Linear

WIDTH, HIDDEN, SYMBOLS, BEAM = 256, 512, 4128, 4
ROUNDS = 50


def seconds(work: Callable[[], object]) -> float:
    """Return the median of ROUNDS runs, after a tenth as many that do not count."""
    times = measure({"work": timed(lambda _: work())}, 1, ROUNDS, ROUNDS // 10)["work"]
    return Quartiles.of([each for (each,) in times]).median


def flops_per_second(dtype: torch.dtype, size: int = 1024) -> float:
    """Measure the speed of a large product."""
    a, b = torch.randn(2, size, size).to(dtype)
    return 2 * size**3 / seconds(lambda: a @ b)


def read(x: torch.Tensor) -> float:
    """Return the seconds that it takes to read x once."""
    return seconds(lambda: x.amax(1))


def measured(rows: int) -> dict[str, tuple[float, float]]:
    """Return for each operator the seconds that it takes, and the least that it needs."""
    x, hidden, scores = torch.randn(rows, WIDTH), torch.randn(rows, HIDDEN), torch.randn(rows, SYMBOLS)
    found = {}

    def note(name: str, work: Callable[[], object], least: float) -> None:
        found[name] = seconds(work), least

    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        speed = flops_per_second(dtype)
        for what, outputs in (("linear, 256 to 512", HIDDEN), ("scores of all symbols", SYMBOLS)):
            linear = torch.nn.Linear(WIDTH, outputs)
            weights = torch.randn(outputs, WIDTH * dtype.itemsize // 4)
            layer = BFloat16Linear(linear) if dtype == torch.bfloat16 else linear
            least = max(2 * rows * WIDTH * outputs / speed, read(weights))
            note(f"{what}, {name}", partial(layer, x), least)
    note("the best 10 scores", lambda: scores.topk(2 * BEAM + 2, 1), read(scores))
    note("log of the sum of exponentials", lambda: scores.logsumexp(1), read(scores))
    note("GELU of 512 channels", lambda: F.gelu(hidden), read(hidden))
    note("fp32 to bf16 and back, 512 channels", lambda: hidden.bfloat16().float(), read(hidden))
    note("addition of 256 channels", lambda: x + x, read(x))
    return found


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    columns = ["operator"]
    found: dict[str, list[str]] = {}
    for sentences in 1, 64:
        columns += [f"us, {BEAM * sentences} rows", "at least us", "times"]
        for name, (taken, least) in measured(BEAM * sentences).items():
            found.setdefault(name, []).extend([f"{1e6 * taken:,.0f}", f"{1e6 * least:,.0f}", f"{taken / least:.1f}"])
    print(text_table([columns, *([name, *cells] for name, cells in found.items())]))
    if args.json is not None:
        about = {**made_by("python examples/benchmarks/operators.py"), "machine": describe(threads=1)}
        write_json(args.json, {**about, "columns": columns[1:], "rows": found})


if __name__ == "__main__":
    with one_line_errors():
        main()
