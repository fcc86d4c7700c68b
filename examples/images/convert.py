"""Published weights of ResMLP and MLP-Mixer, the authors' or timm's, to ours and back. `--help` tells the options.

What each side calls a weight stands in NAMES. The values are the same; only timm's alpha and beta are 1 x 1 x C. What
is fixed here is missing there: every LayerScale's beta is 0, and Mixer has a LayerScale of alpha 1.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also runs uninstalled

from resmlp_mt.errors import UserError, told_in_one_line

with told_in_one_line():  # the imports take a second
    import torch
    from models import HALF, ImageModel, ImageModelConfig, count
    from safetensors.torch import load_file
    from torch import Tensor

    from resmlp_mt.commands.arguments import command_parser
    from resmlp_mt.files import atomic_write, check_outputs

BOTH = [
    ("blocks.", "layers."),
    (".norm1.", ".mixing.pre_affine."),
    (".mlp_tokens.fc", ".mixing.mixing.fc"),
    (".norm2.", ".mlp.pre_affine."),
]
NAMES = {
    "timm": [
        *BOTH,
        ("stem.proj.", "patches."),
        (".linear_tokens.", ".mixing.mixing."),
        (".ls1", ".mixing.post_affine.alpha"),
        (".mlp_channels.fc", ".mlp.fc"),
        (".ls2", ".mlp.post_affine.alpha"),
    ],
    "authors": [
        *BOTH,
        ("patch_embed.proj.", "patches."),
        (".attn.", ".mixing.mixing."),
        (".gamma_1", ".mixing.post_affine.alpha"),
        (".gamma_2", ".mlp.post_affine.alpha"),
    ],
}
"""Parts of names, theirs and ours, replaced in this order; all others are equal."""


def renamed(name: str, parts: Sequence[tuple[str, str]]) -> str:
    """A name with every part replaced."""
    for old, new in parts:
        name = name.replace(old, new, 1)
    return name


def to_ours(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The authors' or timm's weights by our names."""
    parts = NAMES["authors" if "patch_embed.proj.weight" in weights else "timm"]
    return {
        renamed(name, parts): value.flatten() if name.endswith((".alpha", ".beta")) else value
        for name, value in weights.items()
    }


def to_theirs(model: ImageModel, kind: str) -> dict[str, Tensor]:
    """A model's weights by the names of ``kind``, ``"timm"`` or ``"authors"``.

    Raises:
        UserError: they have no such model
    """
    cfg = model.cfg
    if cfg.pooling != "mean" or cfg.mixing == "none" or (kind == "authors" and cfg.mixing != "linear"):
        raise UserError(f"--to {kind}: no model there with {cfg.mixing} mixing and {cfg.pooling} pooling: keep ours")
    parts = [(ours, theirs) for theirs, ours in NAMES[kind]]
    found = {renamed(name, parts): value.detach() for name, value in model.named_parameters() if value.requires_grad}
    shape = (1, 1, -1) if kind == "timm" else (-1,)
    return {name: value.view(shape) if name.endswith((".alpha", ".beta")) else value for name, value in found.items()}


def config_of(weights: Mapping[str, Tensor]) -> ImageModelConfig:
    """The configuration of published weights (by our names), which their shapes tell."""
    mixer = "layers.0.mixing.mixing.fc1.weight" in weights
    dim, channels, patch, _ = weights["patches.weight"].shape
    mixing = weights[f"layers.0.mixing.mixing.{'fc1.' if mixer else ''}weight"]
    cfg = ImageModelConfig(
        dim=dim,
        depth=len({found[1] for name in weights if (found := re.match(r"layers\.(\d+)\.", name))}),
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
    """A model and the names of its classes (none where the file has none): a file of ours, the authors' or timm's.

    Raises:
        UserError: it is missing or none of these
    """
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
        model = ImageModel(cfg)
        missing, unknown = model.load_state_dict(weights, strict=False)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # whatever PyTorch makes of another kind of file
        raise UserError(
            f"{path}: not the weights of a ResMLP or an MLP-Mixer for images: choose another file"
        ) from error
    fixed = {name for name, value in model.named_parameters() if not value.requires_grad}
    if wrong := [*unknown, *(set(missing) - fixed)]:
        raise UserError(f"{path}: {wrong[0]} is in this file or in the model, but not in both: choose another file")
    return model.eval(), names


def write(path: Path, content: Mapping[str, object]) -> None:
    """Write weights, or more, as PyTorch does."""
    with atomic_write(path, "wb") as file:
        torch.save(content, file)


def write_model(path: Path, model: ImageModel, names: Sequence[str] = ()) -> None:
    """Write a file of ours: configuration, weights, and the names of the classes."""
    write(path, {"config": asdict(model.cfg), "weights": model.state_dict(), "classes": list(names)})


def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help=".pth, .pt, .bin or .safetensors")
    parser.add_argument("--to", choices=["ours", *NAMES], default="ours", help="whose names (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="the new file (default: FILE's name with .ours.pt, .timm.pt, ...)")
    args = parser.parse_args()
    out = args.out or args.file.with_suffix(f".{args.to}.pt")
    check_outputs([out], [args.file])
    model, names = read_model(args.file)
    if args.to == "ours":
        write_model(out, model, names)
    else:
        write(out, to_theirs(model, args.to))
    cfg = model.cfg
    print(f"{out}: {cfg.depth} layers of {cfg.dim} channels, {cfg.patches} patches, {count(model):,} parameters")


if __name__ == "__main__":
    with told_in_one_line():
        main()
