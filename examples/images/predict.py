"""The five best classes of an image, by published weights or a model of one's own. `--help` tells the options."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also runs uninstalled

from resmlp_mt.errors import UserError, told_in_one_line

with told_in_one_line():  # the imports take a second
    import numpy as np
    import torch
    from convert import read_model
    from models import normalizing
    from PIL import Image

    from resmlp_mt.files import read_lines

SHOWN = 0.875
"""The part of the shorter side that is looked at, as in timm."""


def read_image(path: Path, size: int, channels: int = 3) -> torch.Tensor:
    """The middle of an image, channels x size x size, 0 to 1.

    Raises:
        UserError: it is missing or no image
    """
    try:
        with Image.open(path) as opened:
            image = opened.convert("RGB" if channels == 3 else "L")
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"{path}: cannot be read as an image: choose another file") from error
    left, top = ((side - SHOWN * min(image.size)) / 2 for side in image.size)
    box = (left, top, image.width - left, image.height - top)
    pixels = np.asarray(image.resize((size, size), Image.Resampling.BICUBIC, box), np.float32) / 255
    return torch.from_numpy(pixels.reshape(size, size, channels)).permute(2, 0, 1)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", type=Path, metavar="IMAGE")
    parser.add_argument(
        "--model", type=Path, required=True, help="file of train.py or convert.py, or published weights"
    )
    parser.add_argument("--classes", type=Path, help="names of the classes, one a line (default: the model's)")
    args = parser.parse_args()
    model, names = read_model(args.model)
    if not model.cfg.classes:
        raise UserError(f"{args.model}: has no classes (it was trained without labels): choose another model")
    if args.classes:
        names = list(read_lines(args.classes))
        if len(names) != model.cfg.classes:
            raise UserError(f"{args.classes}: {len(names)} lines, but the model has {model.cfg.classes} classes")
    image = read_image(args.image, model.cfg.image, model.cfg.channels)
    with torch.no_grad():
        probabilities = model(normalizing(model.cfg)(image[None]))[0].softmax(-1)
    for probability, number in zip(*probabilities.topk(min(5, model.cfg.classes)), strict=True):
        print(f"{probability:6.1%}  {names[number] if names else f'class {number}'}")


if __name__ == "__main__":
    with told_in_one_line():
        main()
