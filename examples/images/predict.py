"""Print the five best classes of an image, by published weights or your own model. `--help` tells the options."""

from pathlib import Path

from resmlp_mt.common.errors import UserError, one_line_errors

with one_line_errors():  # the imports take a second
    import numpy as np
    import torch
    from convert import read_model
    from models import ImageModelConfig
    from PIL import Image, ImageOps

    from resmlp_mt.cli.arguments import command_parser
    from resmlp_mt.common.files import read_lines

MARGIN = 0.0625  # share that is cut off at each side, as in timm


def read_image(path: Path, cfg: ImageModelConfig) -> torch.Tensor:
    """Read the middle of an image as the model's input, channels x size x size, or raise a ``UserError``."""
    try:
        with Image.open(path) as opened:
            image = opened.convert("RGB" if cfg.channels == 3 else "L")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        why = getattr(error, "strerror", None) or "cannot be read as an image"
        raise UserError(f"{path}: {why}: choose another file") from error
    pixels = np.asarray(ImageOps.fit(image, (cfg.image, cfg.image), Image.Resampling.BICUBIC, MARGIN), np.float32)
    return cfg.normalized(torch.from_numpy(pixels.reshape(cfg.image, cfg.image, cfg.channels) / 255).permute(2, 0, 1))


def main() -> None:
    """Run the command."""
    parser = command_parser(description=__doc__)
    parser.add_argument("image", type=Path, metavar="IMAGE")
    parser.add_argument("--model", type=Path, required=True, help="of train.py or convert.py, or published weights")
    parser.add_argument("--classes", type=Path, help="names of the classes, one a line (default: the model's)")
    args = parser.parse_args()
    model, names = read_model(args.model)
    if not model.cfg.classes:
        raise UserError(f"{args.model}: has no classes (it was trained without labels): choose another model")
    if args.classes:
        names = list(read_lines(args.classes))
        if len(names) != model.cfg.classes:
            raise UserError(f"{args.classes}: {len(names)} lines, but the model has {model.cfg.classes} classes")
    with torch.no_grad():
        probabilities = model(read_image(args.image, model.cfg)[None])[0].softmax(-1)
    for probability, number in zip(*probabilities.topk(min(5, model.cfg.classes)), strict=True):
        print(f"{probability:6.1%}  {names[number] if names else f'class {number}'}")


if __name__ == "__main__":
    with one_line_errors():
        main()
