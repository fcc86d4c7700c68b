"""A model's folder: what is loaded is what was written; a broken folder gives an error of one line."""

import json
import re
import shutil

import pytest
import torch
from builders import EOS, KINDS, OPTIONS, build
from translate.small_folder import CODES, SYMBOLS

from resmlp_mt.common.errors import UserError
from resmlp_mt.text.tokenizer import SPECIAL, TextSettings
from resmlp_mt.translate import model_folder

GENERATION = {"num_beams": 4, "length_penalty": 1.0, "max_length": 64}
SOME = "no mixing", "heads and relative", "gated with a band", "mixed", "layernorm", "sinusoidal positions"
VARIANTS = {**KINDS, **{name: OPTIONS[name] for name in SOME}}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_folder_gives_the_model_back(name, tmp_path):
    written = build(**VARIANTS[name]).without_fairseq().float()
    symbols = [*SPECIAL, *(f"w{number}" for number in range(40))]
    target = [*symbols, "x", "y", "z"] if "separate" in VARIANTS[name] else symbols
    model_folder.write(tmp_path, written, TextSettings("en", "de"), CODES, (symbols, target), GENERATION)
    model, _, generation = model_folder.load(tmp_path)
    assert model.cfg == written.cfg
    torch.testing.assert_close(model.state_dict(), written.state_dict(), rtol=0, atol=0)
    source, previous = torch.tensor([[5, 6, EOS]]), torch.tensor([[EOS, 7]])
    assert torch.equal(model(source, previous), written(source, previous))
    assert generation.items() >= GENERATION.items()


def test_text_to_numbers_and_back(folder, tmp_path):
    model = shutil.copytree(folder, tmp_path / "model")
    change(model_folder.TEXT, escape=False)(model)  # as older exports have it
    change(model_folder.GENERATION, num_beams=None)(model)  # null: not given
    _, tokenizer, generation = model_folder.load(model)
    assert "num_beams" not in generation and generation["length_penalty"] == 1.0
    assert tokenizer.pieces(" in\u2028th2 ") == tokenizer.pieces("in\nth2\n") == ["in", "th@@", "2"]
    known = SYMBOLS.index("in")
    assert tokenizer.encode("in\t☃") == [known, 3, EOS]
    assert tokenizer.encode(" ") == [EOS]
    assert tokenizer.decode([0, known, SYMBOLS.index("the"), 1, EOS]) == "in the"


def change(name, part=None, **values):
    """Return a function that changes values in a JSON file, or in the mapping ``part`` of it."""

    def changed(folder):
        known = json.loads((folder / name).read_text())
        (known[part] if part else known).update(values)
        (folder / name).write_text(json.dumps(known))

    return changed


def cut(name, size=20):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


NAMES = ["config.json", "generation_config.json", "tokenizer_config.json", "model.safetensors", "source_symbols.txt"]
NAMES += ["target_symbols.txt", "subwords.model"]
BROKEN = {
    **{f"{name} missing": (lambda folder, name=name: (folder / name).unlink(), name) for name in NAMES},
    **{f"{name} cut": (cut(name), name) for name in NAMES},
    "weights cut at their end": (cut("model.safetensors", 5000), "model.safetensors"),
    "no mapping": (lambda folder: (folder / "config.json").write_text("[1]"), "config.json"),
    "more layers": (change("config.json", "sizes", decoder_layers=3), "not the model of config.json: lacks"),
    "more symbols": (change("config.json", "sizes", source_symbols=45), "symbols, but the model 45"),
    "wider": (change("config.json", "sizes", decoder_output_dim=16), "model.safetensors: Error(s) in loading"),
    "no cutoffs": (change("config.json", "sizes", adaptive_cutoffs=["a"]), "config.json: invalid literal for int"),
    "a tokenizer of another kind": (change("tokenizer_config.json", tokenizer="spacy"), "tokenizer is 'spacy'"),
    "a language that is none": (change("tokenizer_config.json", source_language=5), "source_language is 5"),
    "no beam": (change("generation_config.json", num_beams=0), "generation_config.json: beam 0: give"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_folder_is_one_line(kind, folder, tmp_path):
    model = shutil.copytree(folder, tmp_path / "model")
    broken, message = BROKEN[kind]
    broken(model)
    with pytest.raises(UserError, match=f"^{model}.*[/ ]{re.escape(message)}"):
        model_folder.load(model)
