"""Exported folders of tiny models; each has fairseq's scores and the prepared text next to it.

python tests/export/reference_folders.py FOLDER     makes FOLDER/NAME/model and FOLDER/NAME/reference.pt
"""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # builders.py, if this file is run as a command

from builders import KINDS, OPTIONS, SMALL, build

from resmlp_mt.export.hub_folder import Card, batches, fairseq_scores, write_hub_folder
from resmlp_mt.fairseq_plugin.trained import Trained
from resmlp_mt.text.tokenizer import TextSettings
from resmlp_mt.translate import model_folder

CODES = b"#version: 0.2\n" + b"".join(f"w {digit}</w>\n".encode() for digit in range(10))
LINES = ["w1 w2 w3.", "w5, w6", " w7\u2028w8\t", "w9 (w0)", "<unk> </s> w1", "日本 🙂"]
SHORT = {**SMALL, "encoder_layers": 1, "max_source_positions": 20, "max_target_positions": 14}
SOME = "no mixing", "mlp", "heads and relative", "gated with a band", "averages", "dynamic", "ssru", "synthesizer"
SOME += "conv", "depthwise", "separable", "mixed", "layernorm", "sinusoidal positions", "learned positions"
VARIANTS = {**KINDS, **{name: OPTIONS[name] for name in SOME}}


@torch.no_grad()
def make(place: Path, name: str) -> Path:
    """Make the exported folder of one variant, and its reference, in the empty folder ``place``."""
    model = build(scatter=0.03, **{**SHORT, **VARIANTS[name]}).float().eval()
    trained = Trained(Path("model.pt"), "resmlp_transformer_tiny", model, ("en", "de"), 5)
    write_hub_folder(place / "model", trained, TextSettings("en", "de"), CODES, Card("model", ["model.pt"]))
    found = [(*each, fairseq_scores(model, *each[:2])) for each in batches(model)]
    _, tokenizer, _ = model_folder.load(place / "model")
    both = [(line, tokenizer.encode(line), tokenizer.encode(line, target=True)) for line in LINES]
    text = [(line, source, target, tokenizer.decode(target)) for line, source, target in both]
    torch.save({"batches": found, "text": text}, place / "reference.pt")
    return place / "model"


if __name__ == "__main__":
    for name in VARIANTS:
        place = Path(sys.argv[1], name.replace(" ", "-"))
        place.mkdir(parents=True)
        print(make(place, name))
