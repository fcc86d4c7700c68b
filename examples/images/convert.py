"""Convert published weights of ResMLP and MLP-Mixer, the authors' or timm's, to ours and back (options: `--help`).

The values are the same under other names; only timm's alpha and beta are 1 x 1 x C.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from resmlp_mt.common.errors import UserError, one_line_errors

with one_line_errors():  # the imports take a second
    import torch
    from models import HALF, ImageModel, ImageModelConfig, count
    from safetensors.torch import load_file
    from torch import Tensor

    from resmlp_mt.cli.arguments import command_parser
    from resmlp_mt.common.files import atomic_write, check_new, check_outputs

WHOSE = "ours", "timm", "authors"
NAMES = [
    ("patches.", "stem.proj.", "patch_embed.proj."),
    ("layers.", "blocks.", "blocks."),
    (".mixing.pre_affine.", ".norm1.", ".norm1."),
    (".mixing.mixing.fc", ".mlp_tokens.fc", ".mlp_tokens.fc"),  # of a Mixer
    (".mixing.mixing.", ".linear_tokens.", ".attn."),
    (".mixing.post_affine.alpha", ".ls1", ".gamma_1"),
    (".mlp.pre_affine.", ".norm2.", ".norm2."),
    (".mlp.fc", ".mlp_channels.fc", ".mlp.fc"),
    (".mlp.post_affine.alpha", ".ls2", ".gamma_2"),
]
"""Parts of parameter names, in the order of WHOSE, replaced from first to last; all other parts are equal."""


def renamed(weights: Mapping[str, Tensor], old: str, new: str) -> dict[str, Tensor]:
    """Return the weights under other names; ``old`` and ``new`` are in WHOSE."""
    found = {}
    for name, value in weights.items():
        for parts in NAMES:
            name = name.replace(parts[WHOSE.index(old)], parts[WHOSE.index(new)], 1)
        of_affine = name.endswith((".alpha", ".beta"))
        found[name] = value.reshape((1, 1, -1) if new == "timm" else -1) if of_affine else value
    return found


def to_ours(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the authors' or timm's weights under our names."""
    return renamed(weights, "authors" if "patch_embed.proj.weight" in weights else "timm", "ours")


def to_theirs(model: ImageModel, whose: str) -> dict[str, Tensor]:
    """Return a model's weights under the names of ``"timm"`` or ``"authors"``; a ``UserError`` if they lack it."""
    cfg = model.cfg
    if cfg.channels != 3:
        raise UserError(f"--to {whose}: the models there are of images in color: keep ours")
    if cfg.pooling != "mean" or cfg.mixing == "none" or (whose == "authors" and cfg.mixing != "linear"):
        raise UserError(f"--to {whose}: no model there with {cfg.mixing} mixing and {cfg.pooling} pooling: keep ours")
    return renamed(model.state_dict(), "ours", whose)


def config_of(weights: Mapping[str, Tensor]) -> ImageModelConfig:
    """Return the configuration of published weights (under our names), found from their shapes."""
    mixer = "layers.0.mixing.mixing.fc1.weight" in weights
    dim, channels, patch, _ = weights["patches.weight"].shape
    mixing = weights[f"layers.0.mixing.mixing.{'fc1.' if mixer else ''}weight"]
    cfg = ImageModelConfig(
        dim=dim,
        depth=1 + max(int(name.split(".")[1]) for name in weights if name.startswith("layers.")),
        patch=patch,
        image=round(mixing.size(1) ** 0.5) * patch,
        channels=channels,
        classes=len(weights["head.weight"]) if "head.weight" in weights else 0,
        expansion=len(weights["layers.0.mlp.fc1.weight"]) // dim,
    )
    if not mixer:
        return replace(cfg, layerscale=1.0)
    return replace(cfg, norm="layernorm", mixing="mlp", mixing_hidden=len(mixing), mean=HALF, std=HALF)


def read_model(path: Path) -> tuple[ImageModel, list[str]]:
    """Read a model, ours, the authors' or timm's, and the names of its classes, if any, or raise a ``UserError``."""
    try:
        if path.suffix == ".safetensors":
            read = load_file(path)
        else:
            read = torch.load(path, map_location="cpu", weights_only=True)
        if "config" in read:
            cfg, weights, names = ImageModelConfig(**read["config"]), read["weights"], read["classes"]
        else:
            weights = to_ours(read.get("model", read))
            cfg, names = config_of(weights), []
        model = ImageModel(cfg).eval()
        missing, unknown = model.load_state_dict(weights, strict=False)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # PyTorch raises many kinds for other files
        raise UserError(f"{path}: not the weights of a ResMLP or an MLP-Mixer: choose another file") from error
    if wrong := [*missing, *unknown]:
        raise UserError(f"{path}: {wrong[0]} is in this file or in the model, but not in both: choose another file")
    return model, names


def write(path: Path, content: Mapping[str, object]) -> None:
    """Write weights, or more, in PyTorch's format."""
    with atomic_write(path, "wb") as file:
        torch.save(content, file)


def write_model(path: Path, model: ImageModel, names: Sequence[str] = ()) -> None:
    """Write a file of ours: configuration, weights, and the names of the classes."""
    write(path, {"config": asdict(model.cfg), "weights": model.state_dict(), "classes": list(names)})


def main() -> None:
    """Run the command."""
    parser = command_parser(description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help=".pth, .pt, .bin or .safetensors")
    parser.add_argument("--to", choices=WHOSE, default="ours", help="whose names (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="the new file (default: FILE's name with .ours.pt, .timm.pt, ...)")
    args = parser.parse_args()
    out = args.out or args.file.with_suffix(f".{args.to}.pt")
    check_outputs([out], [args.file])
    check_new(out)
    model, names = read_model(args.file)
    if args.to == "ours":
        write_model(out, model, names)
    else:
        write(out, to_theirs(model, args.to))
    cfg = model.cfg
    print(f"{out}: {cfg.depth} layers of {cfg.dim} channels, images of {cfg.image} pixels, {count(model):,} parameters")


if __name__ == "__main__":
    with one_line_errors():
        main()
