"""The exported folder: two graphs, their description, and the dictionaries."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_folder
from resmlp_mt.data.checksums import sha256_of
from resmlp_mt.export.graphs import ENCODER_INPUTS, ENCODER_OUTPUTS, OPSET, STEP_INPUTS, STEP_OUTPUTS, Graphs, Shapes
from resmlp_mt.export.loading import Trained
from resmlp_mt.translate.graphs import kept_channels


def describe(trained: Trained) -> dict[str, Any]:
    """What ``model.json`` says: names, shapes and limits."""
    model = trained.model
    attention = model.decoder.layers[0].cross_attention.attention
    source, target = model.encoder.dictionary, model.decoder.dictionary
    return {
        "checkpoint": trained.path.name,
        "architecture": trained.architecture,
        "source_language": trained.languages[0],
        "target_language": trained.languages[1],
        "source_dictionary": f"dict.{trained.languages[0]}.txt",
        "target_dictionary": f"dict.{trained.languages[1]}.txt",
        "source_symbols": len(source),
        "pad": source.pad(),
        "eos": source.eos(),
        "unk": source.unk(),
        "max_source_positions": model.encoder.max_positions(),
        "max_target_positions": model.decoder.max_positions(),
        "sizes": {
            "L": len(model.decoder.layers),
            "H": attention.num_heads,
            "D": attention.head_dim,
            "C": kept_channels(model.without_fairseq()),
            "V": len(target),
        },
        "encoder.onnx": {"inputs": _spelled(ENCODER_INPUTS), "outputs": _spelled(ENCODER_OUTPUTS)},
        "decoder_step.onnx": {"inputs": _spelled(STEP_INPUTS), "outputs": _spelled(STEP_OUTPUTS)},
        "opset": OPSET,
    }


def _spelled(shapes: Shapes) -> dict[str, str]:
    return {name: " x ".join(f"({size})" if " " in size else size for size in shape) for name, shape in shapes.items()}


def check_new(out: Path) -> None:
    """See that a folder does not exist yet.

    Raises:
        UserError: it does
    """
    if os.path.lexists(out):
        raise UserError(f"{out}: exists already: remove it, or choose another folder")


def write_folder(out: Path, trained: Trained, graphs: Graphs) -> None:
    """Write the folder, which appears whole or not at all.

    Raises:
        UserError: it exists already or cannot be written
    """
    check_new(out)
    with atomic_folder(out) as new:
        fill(new, trained, graphs)


def fill(folder: Path, trained: Trained, graphs: Graphs) -> None:
    """Write the files into an empty folder."""
    (folder / "encoder.onnx").write_bytes(graphs.encoder)
    (folder / "decoder_step.onnx").write_bytes(graphs.decoder_step)
    for file in trained.dictionaries:
        shutil.copyfile(file, folder / file.name)
    about = describe(trained) | {"sha256": {path.name: sha256_of(path) for path in sorted(folder.iterdir())}}
    (folder / "model.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
