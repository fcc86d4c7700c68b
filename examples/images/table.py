"""Train every row of README's table over five seeds, one thread, and write results.json: some minutes a seed.

What is trained stands in --work, a file, and is not trained again.
"""

import argparse
import datetime
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also runs uninstalled

from resmlp_mt.errors import told_in_one_line

with told_in_one_line():  # the imports take a second
    import torch
    from baselines import VisionTransformer, conv_net
    from models import DIGITS, ImageModel, count, normalizing
    from torch import nn
    from train import Data, Recipe, accuracy, digits, learn, neighbors_accuracy, train

    from resmlp_mt.files import JsonFile, write_json

SEEDS = range(1, 6)
RECIPE, DINO = Recipe(16), Recipe(24)
Figures = tuple[float, int]
"""Accuracy and parameters."""


def ours(name: str, method: str = "supervised", recipe: Recipe = RECIPE) -> Callable[[Data, int], Figures]:
    """A row of an ImageModel."""

    def row(data: Data, seed: int) -> Figures:
        model, score = train(DIGITS[name], data, method, recipe, seed)
        return score, count(model)

    return row


def baseline(make: Callable[[], nn.Module]) -> Callable[[Data, int], Figures]:
    """A row of another model, trained as ours."""

    def row(data: Data, seed: int) -> Figures:
        torch.manual_seed(seed)
        model, normalized = make().train(), normalizing(DIGITS["resmlp"])
        learn(model, data, RECIPE, normalized)
        return accuracy(model.eval(), data, normalized), count(model)

    return row


def untrained(data: Data, seed: int) -> Figures:
    """What DINO's features start as."""
    torch.manual_seed(seed)
    model, normalized = ImageModel(DIGITS["resmlp"]).eval(), normalizing(DIGITS["resmlp"])
    return neighbors_accuracy(lambda images: model.features(normalized(images)), data), 0


ROWS = {
    "ResMLP": ours("resmlp"),
    "ResMLP, class-MLP": ours("class-mlp"),
    "ResMLP, distilled from the convolutional net": ours("resmlp", "distilled"),
    "ResMLP without mixing": ours("no-mixing"),
    "MLP-Mixer": ours("mixer"),
    "B-MLP": ours("b-mlp"),
    "S-MLP": ours("s-mlp"),
    "convolutional net": baseline(lambda: conv_net(1, 10)),
    "vision Transformer": baseline(lambda: VisionTransformer(1, 10, 8, 2, 32)),
    "ResMLP, DINO, 20 neighbors of features": ours("resmlp", "dino", DINO),
    "20 neighbors of the untrained ResMLP's features": untrained,
    "20 neighbors of pixels, nothing learned": lambda data, seed: (neighbors_accuracy(lambda x: x.flatten(1), data), 0),
}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="file of what is trained so far")
    parser.add_argument("--machine", default=platform.machine(), help="what the results say it was made on")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    data, done = digits(), JsonFile(args.work)
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, cwd=Path(__file__).parent, capture_output=True, text=True).stdout.strip()
    done.values.setdefault("commit", commit)
    for name, row in ROWS.items():
        for seed in SEEDS:
            if f"{name}, seed {seed}" not in done.values:
                start = time.process_time()
                score, parameters = row(data, seed)
                done.values[f"{name}, seed {seed}"] = [score, parameters, time.process_time() - start]
                done.save()
                print(name, seed, done.values[f"{name}, seed {seed}"], flush=True)
    write_json(args.out, {"digits": table(done.values, args.machine)})


def table(done: dict, machine: str) -> dict:
    """The table as results.json has it: means over seeds, with their standard deviation."""
    rows, seeds = {}, {}
    for name in ROWS:
        scores, parameters, seconds = zip(*(done[f"{name}, seed {seed}"] for seed in SEEDS), strict=True)
        percent = [100 * score for score in scores]
        cost = [f"{parameters[0]:,}", f"{statistics.mean(seconds):.0f} s"] if parameters[0] else ["", ""]
        rows[name] = [f"{statistics.mean(percent):.1f} +- {statistics.stdev(percent):.1f}", *cost]
        seeds[name] = [round(each, 2) for each in percent]
    return {
        "command": "python examples/images/table.py --work FILE",
        "commit": done["commit"],
        "date": datetime.date.today().isoformat(),
        "machine": machine,
        "software": f"Python {platform.python_version()}, torch {torch.__version__}",
        "columns": ["% right of 597", "parameters", "training, processor time"],
        "rows": rows,
        "seeds": seeds,
    }


if __name__ == "__main__":
    with told_in_one_line():
        main()
