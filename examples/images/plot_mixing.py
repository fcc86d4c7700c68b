"""Draw the learned A of an image model: every row as a picture, at the place of the patch that reads (figure 2)."""

from pathlib import Path

from resmlp_mt.common.errors import UserError, one_line_errors

with one_line_errors():  # the imports take a second
    import torch
    import torch.nn.functional as F
    from convert import read_model
    from matplotlib.figure import Figure
    from models import ImageModel

    from resmlp_mt.cli.arguments import command_parser
    from resmlp_mt.common.files import atomic_write, check_outputs

MOST_ROWS, MOST_LAYERS = 14, 6
"""Largest number of pictures in a column, and of panels; if there are more, every second or third is shown."""


def matrices_picture(model: ImageModel) -> Figure:
    """Draw a panel for each layer: each row of A as an image of its weights; colors end at half of A's largest weight.

    Its title: the share of weights below 5% of the largest, and their mean distance in patches, weighted by magnitude.
    """
    side = model.cfg.image // model.cfg.patch
    step = -(-side // MOST_ROWS)
    layers = list(enumerate(model.layers, start=1))[:: -(-len(model.layers) // MOST_LAYERS)]
    places = torch.cartesian_prod(torch.arange(side), torch.arange(side)).float()
    distances = torch.cdist(places, places)
    figure = Figure(figsize=(4.2 * len(layers), 4.4))
    figure.subplots_adjust(0.01, 0.01, 0.99, 0.92, 0.05)
    for axis, (number, layer) in zip(figure.subplots(1, len(layers), squeeze=False)[0], layers, strict=True):
        a = layer.mixing.mixing.weight.detach()
        rows = a.view(side, side, side, side)[::step, ::step]
        tiles = F.pad(rows, [0, 1, 0, 1], value=float("nan"))  # a border between the pictures
        image = tiles.transpose(1, 2).reshape(len(rows) * (side + 1), -1)[:-1, :-1]
        largest = float(a.abs().max())
        axis.imshow(image.numpy(), cmap="RdBu_r", vmin=-largest / 2, vmax=largest / 2, interpolation="nearest")
        small, mean = (a.abs() < 0.05 * largest).double().mean(), (a.abs() * distances).sum() / a.abs().sum()
        axis.set_title(f"layer {number}: {small:.0%} small, distance {mean:.2f}")
        axis.set_axis_off()
    return figure


def main() -> None:
    """Run the command."""
    parser = command_parser(description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL", help="of train.py or convert.py, or published weights")
    parser.add_argument("--out", type=Path, required=True, help="the picture, .png")
    args = parser.parse_args()
    check_outputs([args.out], [args.model])
    model, _ = read_model(args.model)
    if model.cfg.mixing != "linear":
        raise UserError(f"{args.model}: its token mixing is no matrix A: choose a ResMLP")
    with atomic_write(args.out, "wb") as file:
        matrices_picture(model).savefig(file, format="png", dpi=80)


if __name__ == "__main__":
    with one_line_errors():
        main()
