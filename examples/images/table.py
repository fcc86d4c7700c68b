"""Train every row of README's table with five seeds, on one thread: half an hour. An interrupted run continues."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from resmlp_mt.common.errors import UserError, one_line_errors

with one_line_errors():  # the imports take a second
    import numpy as np
    import torch
    from models import DIGITS, ImageModel, count
    from torch import Tensor, nn
    from train import Recipe, conv_net, digits, train

    from resmlp_mt.cli.arguments import command_parser
    from resmlp_mt.common.files import JsonFile
    from resmlp_mt.lab.machine import describe, facts, made_by

SEEDS = 5


class VisionTransformer(nn.Module):
    """For the digits: patches, learned positions, two pre-norm layers of PyTorch, mean (Dosovitskiy et al. 2021)."""

    def __init__(self, dim: int = 32):
        super().__init__()
        self.patches = nn.Conv2d(1, dim, 2, 2)
        self.positions = nn.Parameter(0.02 * torch.randn(16, 1, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, 0.0, "gelu", norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, 10)

    def forward(self, images: Tensor) -> Tensor:
        """``B x 1 x 8 x 8 -> B x 10``"""
        x = self.patches(images).flatten(2).permute(2, 0, 1) + self.positions
        return self.head(self.layers(x).mean(0))


def ours(name: str, classes: int = 10) -> Callable[[], nn.Module]:
    """Return a function that makes one of DIGITS; with 0 classes, the model returns features."""
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
    "20 neighbors of the untrained ResMLP's features": (ours("resmlp", 0), "untrained"),
    "20 neighbors of pixels": (nn.Flatten, "untrained"),
}
"""By row: the function that makes a model, and the method of its training."""


def main() -> None:
    """Run the command."""
    parser = command_parser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the table, .json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    data, out = digits(), JsonFile(args.out)
    if args.out.exists() and "digits" not in out.values:
        raise UserError(f"{args.out}: exists, and is no table of this command: choose another name")
    about = {
        **made_by("python examples/images/table.py"),
        "machine": facts(describe(packages=["scikit-learn"])),
        "columns": ["% right of 597", "parameters", "training, processor time"],
    }
    table = out.values.setdefault("digits", {**about, "rows": {}, "seeds": {}})
    for name, (make, method) in ROWS.items():
        done = table["seeds"].setdefault(name, [])  # % right, parameters and seconds, for each seed
        for seed in range(len(done) + 1, SEEDS + 1):
            start = time.process_time()
            model, score = train(make, data, Recipe(method, seed=seed))
            done.append([round(100 * score, 2), count(model), round(time.process_time() - start, 1)])
            out.save()
            print(name, *done[-1], flush=True)
        scores, parameters, seconds = np.array(done).T
        right = f"{scores.mean():.1f} +- {scores.std(ddof=1):.1f}"
        table["rows"][name] = [right, f"{parameters[0]:,.0f}", f"{seconds.mean():.0f} s"]
    out.save()


if __name__ == "__main__":
    with one_line_errors():
        main()
