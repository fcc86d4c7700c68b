"""Draw the learned A of an image model: every row as a picture, at the place of the patch that reads (figure 2)."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also runs uninstalled

from resmlp_mt.errors import UserError, told_in_one_line

with told_in_one_line():  # the imports take a second
    from convert import read_model
    from matplotlib.figure import Figure
    from models import ImageModel

    from resmlp_mt.analysis.pictures import WEIGHTS, png
    from resmlp_mt.analysis.sparsity import share_of_small
    from resmlp_mt.files import atomic_write, check_outputs

MOST = 14
"""Rows of pictures at most; of more patches, every second or third one."""


def drawn(model: ImageModel) -> Figure:
    """A panel for each layer: A's rows, each an image of its weights."""
    figure = Figure(figsize=(4.2 * len(model.layers), 4.6), layout="constrained")
    side = model.cfg.image // model.cfg.patch
    step = -(-side // MOST)
    for number, (axis, layer) in enumerate(zip(figure.subplots(1, len(model.layers), squeeze=False)[0], model.layers)):
        a = layer.mixing.mixing.weight.detach()
        rows = a.view(side, side, side, side)[::step, ::step]
        shown = len(rows)
        # a border between the pictures
        tiles = rows.new_full((shown, shown, side + 1, side + 1), float("nan"))
        tiles[:, :, :side, :side] = rows
        largest = float(a.abs().quantile(0.995))
        image = tiles.permute(0, 2, 1, 3).reshape(shown * (side + 1), -1)
        axis.imshow(image, cmap=WEIGHTS, vmin=-largest, vmax=largest, interpolation="nearest")
        axis.set_title(f"layer {number + 1}: {share_of_small(a):.0%} of A below 5% of its largest")
        axis.set_axis_off()
    return figure


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="file of train.py or convert.py, or published weights"
    )
    parser.add_argument("--out", type=Path, required=True, help="the picture, .png")
    args = parser.parse_args()
    check_outputs([args.out], [args.model])
    model, _ = read_model(args.model)
    if model.cfg.mixing != "linear":
        raise UserError(f"{args.model}: its token mixing is no matrix A: choose a ResMLP")
    picture = png(drawn(model))
    with atomic_write(args.out, "wb") as file:
        file.write(picture)


if __name__ == "__main__":
    with told_in_one_line():
        main()
