"""The exported model: its scores are PyTorch's, and a search with them finds what fairseq's finds."""

import importlib.util
import json
import subprocess
import sys
from argparse import Namespace
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from builders import OPTIONS, batch, build, dictionary, pairs, shifted
from fairseq.sequence_generator import SequenceGenerator

from resmlp_mt.checkpoints.loading import load_checkpoint
from resmlp_mt.errors import UserError
from resmlp_mt.models.presets import PRESETS, apply_preset
from scripts import in_process

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from resmlp_mt.export import checking
from resmlp_mt.export.checking import Runtime, largest_difference
from resmlp_mt.export.graphs import graphs_of

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "onnx" / "translate.py"
NARROW = {"encoder_embed_dim": 32, "encoder_ffn_embed_dim": 48, "max_source_positions": 20, "max_target_positions": 24}
VARIANTS = {
    **{name: {"preset": name, **NARROW} for name in PRESETS},
    "separate dictionaries": {"separate": True},
    "shared embeddings": {"share_all_embeddings": True},
    "decoder wider than encoder": {"encoder_embed_dim": 32, "decoder_embed_dim": 64},
    "more encoder than decoder": {"encoder_layers": 3, "decoder_layers": 1},
    **OPTIONS,
    "adaptive softmax": {"adaptive_softmax_cutoff": [10, 30], "criterion": "adaptive_loss"},
}
SCATTER = 0.03
"""Scores of a size that a trained model's have."""
HISTORY = {"criterion_name": "Loss", "optimizer_name": "Adagrad", "lr_scheduler_state": {}, "num_updates": 5}


@pytest.fixture(scope="module")
def model():
    return build(scatter=SCATTER, share_all_embeddings=True).float()


@pytest.fixture(scope="module")
def runtime(model):
    return Runtime(graphs_of(model))


@pytest.mark.parametrize("name", VARIANTS, ids=lambda name: name.replace(" ", "-"))
def test_scores_are_pytorch_s(name):
    model = build(scatter=SCATTER, **VARIANTS[name]).float()
    assert largest_difference(model, graphs_of(model)) < 1e-5


def test_a_sentence_is_alone(runtime):
    sources, targets = pairs((5, 4), (3, 6), (9, 2))
    together = runtime.log_probabilities(batch(sources, left_pad=True, extra=7), batch(shifted(targets)))
    for row, source, previous in zip(together, sources, shifted(targets), strict=True):
        alone = runtime.log_probabilities(batch([source]), batch([previous]))[0]
        torch.testing.assert_close(row[: len(previous)], alone, rtol=1e-5, atol=1e-5)


def test_beams_of_a_sentence_share_it(runtime):
    sources, _ = pairs((5, 1), (3, 1))
    _, targets = pairs(*[(1, 4)] * 6)
    got = runtime.log_probabilities(batch(sources), batch(shifted(targets)))
    apart = runtime.log_probabilities(batch([source for source in sources for _ in range(3)]), batch(shifted(targets)))
    torch.testing.assert_close(got, apart, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("source, target", [(65, 3), (3, 65)])
def test_a_sentence_that_is_too_long_is_an_error(runtime, source, target):
    sources, targets = pairs((source, target))
    with pytest.raises(Exception, match=r"MatMul|Gemm|dimension"):
        runtime.log_probabilities(batch(sources), batch(shifted(targets)))


def test_the_model_stays_as_it_is(model):
    before = deepcopy(model.state_dict())
    graphs_of(model)
    assert not model._is_generation_fast
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_a_difference_is_noticed(model):
    other = deepcopy(model)
    with torch.no_grad():
        other.decoder.layers[1].mixing.mixing.weight[5, 3] += 1
    assert largest_difference(model, graphs_of(other)) > checking.TOLERANCE
    with torch.no_grad():
        other.decoder.layers[1].mixing.mixing.weight[5, 3] = float("nan")
    assert largest_difference(other, graphs_of(other)) == float("inf")


def test_a_decoder_without_cross_attention_is_refused():
    with pytest.raises(UserError, match="no cross-attention"):
        graphs_of(build(no_cross_attention=True))


def test_what_pytorch_cannot_export_is_one_line(model, monkeypatch):
    def export(*_, **__):
        raise torch.onnx.errors.UnsupportedOperatorError("aten::new_thing", 17, None)

    monkeypatch.setattr(torch.onnx, "export", export)
    with pytest.raises(UserError, match=r"Encoder: PyTorch cannot export it to ONNX: .*new_thing") as error:
        graphs_of(model)
    assert "\n" not in str(error.value)


# The command, and the example that translates with what it wrote


def save(path, model, data=None, **options):
    """A checkpoint as fairseq-train writes it, of a model of ``build``."""
    args = Namespace(arch="resmlp_transformer_tiny", _name="resmlp_transformer_tiny", **options)
    apply_preset(args, "resmlp_transformer_tiny")
    task = {"_name": "translation", "data": str(data), "source_lang": "en", "target_lang": "de"}
    state = {"args": None, "cfg": {"model": args, "task": task}, "model": model.state_dict()}
    torch.save({**state, "optimizer_history": [HISTORY], "extra_state": {}, "last_optimizer_state": None}, path)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for language in "en", "de":
        dictionary().save(str(folder / f"dict.{language}.txt"))
    return folder


@pytest.fixture(scope="module")
def checkpoint(model, data, tmp_path_factory):
    return save(tmp_path_factory.mktemp("trained") / "model.pt", model, data, share_all_embeddings=True)


@pytest.fixture
def export(monkeypatch):
    return in_process("export_onnx", monkeypatch)


@pytest.fixture(scope="module")
def exported(checkpoint, tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        out = tmp_path_factory.mktemp("exported") / "onnx"
        in_process("export_onnx", monkeypatch)(checkpoint, "--out", out)
    return out


def test_what_is_written(exported, data, model):
    assert sorted(path.name for path in exported.iterdir()) == [
        "decoder_step.onnx",
        "dict.de.txt",
        "dict.en.txt",
        "encoder.onnx",
        "model.json",
    ]
    assert [path.name for path in exported.parent.iterdir()] == ["onnx"]
    assert (exported / "dict.de.txt").read_bytes() == (data / "dict.de.txt").read_bytes()
    about = json.loads((exported / "model.json").read_text())
    assert about["checkpoint"] == "model.pt"
    assert about["sizes"] == {"L": 2, "H": 2, "D": 32, "C": 64, "V": 44}
    assert (about["max_source_positions"], about["max_target_positions"]) == (64, 64)
    assert (about["pad"], about["eos"], about["unk"]) == (1, 2, 3)
    assert about["decoder_step.onnx"]["outputs"]["longer_past"] == "L x (T + 1) x R x C"


def test_without_dictionaries(model, export, tmp_path, capsys):
    path = save(tmp_path / "model.pt", model, tmp_path / "nowhere", share_all_embeddings=True)
    export(path, "--out", tmp_path / "onnx")
    assert "no dictionaries found" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "onnx").iterdir()} == {"encoder.onnx", "decoder_step.onnx", "model.json"}


@pytest.mark.parametrize(
    "trained_with",
    [{"inference_precision": "int8"}, {"checkpoint_activations": True}, {"encoder_layerdrop": 0.2}],
    ids=lambda options: next(iter(options)),
)
def test_options_of_the_training_that_do_not_matter(model, data, export, trained_with, tmp_path):
    export(
        save(tmp_path / "model.pt", model, data, share_all_embeddings=True, **trained_with), "--out", tmp_path / "onnx"
    )


def test_mistakes_are_one_line_and_nothing_is_written(checkpoint, model, export, tmp_path, monkeypatch):
    def refused(message, *arguments, path=checkpoint, out=tmp_path / "onnx"):
        with pytest.raises(UserError, match=message) as error:
            export(path, "--out", out, *arguments)
        assert "\n" not in str(error.value)
        assert not (tmp_path / "onnx").exists()

    refused("exists already", out=tmp_path)
    refused("dict.en.txt: no such file", "--data", tmp_path)
    dictionary(words=7).save(str(tmp_path / "dict.en.txt"))
    refused("has 11 entries, the model has 44", "--data", tmp_path)
    (tmp_path / "dict.en.txt").write_text("no count\n")
    refused("not a dictionary", "--data", tmp_path)
    refused("cannot be read", path=tmp_path / "missing.pt")
    other = tmp_path / "other.pt"
    state = load_checkpoint(checkpoint)
    state["cfg"]["model"].arch = "transformer"
    torch.save(state, other)
    refused("holds a transformer", path=other)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnx" else find_spec(name))
    refused("needs onnx: pip install onnx onnxruntime")
    monkeypatch.undo()
    monkeypatch.setattr(checking, "largest_difference", lambda *_: 0.1)
    refused("are not PyTorch's")
    monkeypatch.setattr(checking, "largest_difference", lambda *_: float("nan"))
    refused("are not PyTorch's")


@pytest.fixture(scope="module")
def translator(exported):
    spec = importlib.util.spec_from_file_location("translate", EXAMPLE)
    translate = importlib.util.module_from_spec(spec)
    sys.modules["translate"] = translate
    spec.loader.exec_module(translate)
    return translate.Translator(exported, threads=1)


def fairseq_s(model, sources, **options):
    generator = SequenceGenerator([model], model.decoder.dictionary, **options)
    lengths = torch.tensor([len(source) for source in sources])
    with torch.no_grad():
        out = generator({"net_input": {"src_tokens": batch(sources, left_pad=True), "src_lengths": lengths}})
    return [(best["tokens"].tolist()[:-1], best["score"].item()) for best, *_ in out]


@pytest.mark.parametrize("beam, lenpen, longest", [(1, 1.0, 12), (2, 0.6, 30), (5, 1.0, 200), (8, 2.0, 7)])
def test_the_search_finds_what_fairseq_s_finds(model, translator, beam, lenpen, longest):
    sources, _ = pairs(*[(length, 1) for length in (3, 9, 1, 5, 14, 2, 7, 30)])
    expected = fairseq_s(model, sources, beam_size=beam, len_penalty=lenpen, max_len_b=longest)
    found = translator.search(sources, beam, lenpen, longest)
    assert [each.tokens for each in found] == [tokens for tokens, _ in expected]
    assert [each.score for each in found] == pytest.approx([score for _, score in expected], abs=1e-4)


def without_torch(exported, text, *arguments):
    """The example in a Python in which PyTorch and fairseq cannot be imported."""
    code = (
        "import runpy, sys; sys.modules.update(dict.fromkeys(['torch', 'fairseq', 'resmlp_mt'])); "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", code, str(EXAMPLE), str(exported), "--threads", "1", *arguments]
    return subprocess.run(command, input=text.encode(), capture_output=True)


def test_the_example_needs_no_pytorch(model, exported):
    sources, _ = pairs((5, 1), (1, 1), (9, 1))
    symbols = model.encoder.dictionary
    text = "".join(" ".join(symbols[token] for token in source[:-1]) + "\n" for source in sources)
    result = without_torch(exported, text, "--beam", "3", "--max-len", "20", "--batch-size", "2")
    assert result.returncode == 0, result.stderr.decode()
    expected = [symbols.string(tokens) for tokens, _ in fairseq_s(model, sources, beam_size=3, max_len_b=20)]
    assert result.stdout.decode() == "".join(f"{line}\n" for line in expected)


def test_the_example_s_mistakes_are_one_line(exported, tmp_path):
    for folder, text, message in (
        (exported, "w1\n" + "w2 " * 64, "line 2: 64 subwords and </s>, but the model has 64 positions"),
        (tmp_path, "w1\n", "model.json: no such file"),
    ):
        result = without_torch(folder, text)
        assert result.returncode == 1
        assert message in result.stderr.decode()
        assert result.stderr.count(b"\n") == 1
