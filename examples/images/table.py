"""Train every row of README's table over five seeds, one thread, and write results.json: minutes a seed.

What is trained stands in --work, a file, and is not trained again.
"""

import datetime
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also runs uninstalled

from resmlp_mt.errors import told_in_one_line

with told_in_one_line():  # the imports take a second
    import torch
    from baselines import VisionTransformer, conv_net
    from models import DIGITS, ImageModel, count
    from torch import nn
    from train import Recipe, digits, train

    from resmlp_mt.benchmarks.machine import describe
    from resmlp_mt.commands.arguments import command_parser
    from resmlp_mt.files import JsonFile, write_json

SEEDS = range(1, 6)
RECIPE = Recipe(40)


def ours(name: str, classes: int = 10) -> Callable[[], nn.Module]:
    """What makes one of DIGITS; without classes, its features."""
    return lambda: ImageModel(replace(DIGITS[name], classes=classes))


ROWS = {
    "ResMLP": (ours("resmlp"), "supervised"),
    "ResMLP, class-MLP": (ours("class-mlp"), "supervised"),
    "ResMLP, distilled from the convolutional net": (ours("resmlp"), "distilled"),
    "ResMLP without mixing": (ours("no-mixing"), "supervised"),
    "MLP-Mixer": (ours("mixer"), "supervised"),
    "B-MLP": (ours("b-mlp"), "supervised"),
    "S-MLP": (ours("s-mlp"), "supervised"),
    "convolutional net": (conv_net, "supervised"),
    "vision Transformer": (VisionTransformer, "supervised"),
    "ResMLP, DINO, 20 neighbors of features": (ours("resmlp", 0), "dino"),
    "20 neighbors of the untrained ResMLP's features": (ours("resmlp", 0), "neighbors"),
    "20 neighbors of pixels": (nn.Flatten, "neighbors"),
}
"""What makes a model, and how it is trained."""


def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    parser.add_argument("--work", type=Path, required=True, help="file of what is trained so far")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"), help="default: beside me")
    args = parser.parse_args()
    torch.set_num_threads(1)
    data, done = digits(), JsonFile(args.work)
    git = ["git", "rev-parse", "--short", "HEAD"]
    done.values.setdefault("commit", subprocess.check_output(git, cwd=Path(__file__).parent, text=True).strip())
    for seed in SEEDS:
        for name, (make, method) in ROWS.items():
            if f"{name}, seed {seed}" not in done.values:
                start = time.process_time()
                model, score = train(make, data, method, RECIPE, seed)
                done.values[f"{name}, seed {seed}"] = 100 * score, count(model), time.process_time() - start
                done.save()
                print(name, seed, done.values[f"{name}, seed {seed}"], flush=True)
    write_json(args.out, {"digits": table(done.values)})


def table(done: dict) -> dict:
    """The table as results.json has it: means over seeds, with their standard deviation."""
    rows, seeds = {}, {}
    for name in ROWS:
        scores, parameters, seconds = zip(*(done[f"{name}, seed {seed}"] for seed in SEEDS), strict=True)
        mean, spread = statistics.mean(scores), statistics.stdev(scores)
        rows[name] = [f"{mean:.1f} +- {spread:.1f}", f"{parameters[0]:,}", f"{statistics.mean(seconds):.0f} s"]
        seeds[name] = [round(score, 2) for score in scores]
    return {
        "command": "python examples/images/table.py --work FILE",
        "commit": done["commit"],
        "date": datetime.date.today().isoformat(),
        "machine": ", ".join(f"{what} {value}" for what, value in describe("cpu", packages=["scikit-learn"]).items()),
        "columns": ["% right of 597", "parameters", "training, processor time"],
        "rows": rows,
        "seeds": seeds,
    }


if __name__ == "__main__":
    with told_in_one_line():
        main()
