"""A folder with a model: what is written is what is loaded, and what is broken is told in one line."""

import json
import shutil

import pytest
import torch
from builders import EOS, KINDS, OPTIONS, build

from resmlp_mt.common.errors import UserError
from resmlp_mt.text.tokenizer import SPECIAL, TextSettings
from resmlp_mt.translate import model_folder

CODES = b"#version: 0.2\nw 1</w>\n"
WORDS = [f"w{number}" for number in range(40)]
GENERATION = {"num_beams": 4, "length_penalty": 1.0, "max_length": 64}


def write(folder, **options):
    model = build(**options).without_fairseq().float()
    folder.mkdir()
    target = [*SPECIAL, *WORDS, *(["x", "y", "z"] if options.get("separate") else [])]
    symbols = [*SPECIAL, *WORDS], target
    model_folder.write(folder, model, TextSettings("en", "de"), CODES, symbols, GENERATION)
    return model


MIXINGS = {name: OPTIONS[name] for name in ("no mixing", "heads and relative", "layernorm", "sinusoidal positions")}
MODELS = {**KINDS, **MIXINGS}


@pytest.mark.parametrize("name", MODELS)
def test_a_folder_gives_the_model_back(name, tmp_path):
    written = write(tmp_path / "model", **MODELS[name])
    model, _, generation = model_folder.load(tmp_path / "model")
    assert model.cfg == written.cfg
    torch.testing.assert_close(model.state_dict(), written.state_dict(), rtol=0, atol=0)
    source, previous = torch.tensor([[5, 6, EOS]]), torch.tensor([[EOS, 7]])
    assert torch.equal(model(source, previous), written(source, previous))
    assert generation.items() >= GENERATION.items()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "model"
    write(path, share_all_embeddings=True)
    return path


def test_text_to_numbers_and_back(folder):
    change(model_folder.TEXT, escape=False)(folder)  # as older exports have it
    _, tokenizer, _ = model_folder.load(folder)
    assert tokenizer.pieces(" w1\u2028w2 ") == tokenizer.pieces("w1\nw2\n") == ["w1", "w@@", "2"]
    assert tokenizer.encode("w1\tw2") == [5, 3, 3, EOS]
    assert tokenizer.encode(" ") == [EOS]
    assert tokenizer.decode([0, 5, 6, 1, EOS]) == "w1 w2"


def change(name, part=None, **values):
    """What gives a JSON file, or a mapping in it, other values."""

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
    "another model": (change("config.json", model_type="bart"), "config.json: its model_type is 'bart'"),
    "no sizes": (change("config.json", sizes=None), "config.json: not the sizes of a model"),
    "an unknown size": (change("config.json", "sizes", depth=3), "config.json: not the sizes of a model"),
    "more layers": (
        change("config.json", "sizes", decoder_layers=3),
        "safetensors: not the model of config.json: lacks",
    ),
    "more symbols": (change("config.json", "sizes", source_symbols=45), "model.safetensors: Error(s) in loading"),
    "other positions": (change("config.json", "sizes", encoder_positions="learned"), "lacks or has encoder.embed_pos"),
    "a tokenizer of another kind": (change("tokenizer_config.json", tokenizer="spacy"), "tokenizer is 'spacy'"),
    "a language that is none": (change("tokenizer_config.json", source_language=5), "source_language is 5"),
    "no beam": (change("generation_config.json", num_beams=0), "generation_config.json: beam 0: give"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_folder_is_one_line(kind, folder, tmp_path):
    model = shutil.copytree(folder, tmp_path / "model")
    broken, message = BROKEN[kind]
    broken(model)
    with pytest.raises(UserError) as error:
        model_folder.load(model)
    assert str(error.value).startswith(str(model))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_null_is_what_is_not_said(folder, tmp_path):
    model = shutil.copytree(folder, tmp_path / "model")
    change("generation_config.json", num_beams=None, length_penalty=None)(model)
    assert not {"num_beams", "length_penalty"} & model_folder.load(model)[2].keys()
