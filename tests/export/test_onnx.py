"""Searches with the ONNX graphs give the model's scores, for every kind of model."""

import pytest
import torch
from builders import VARIANTS, batch, build, pairs
from translate.small_folder import make

from resmlp_mt.common.errors import UserError
from resmlp_mt.translate import model_folder
from scripts import in_process

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from resmlp_mt.export import graphs
from resmlp_mt.export.graphs import add_graphs, write_graphs
from resmlp_mt.translate.checking import difference
from resmlp_mt.translate.graphs import OnnxModel

SHALLOW = {"encoder_layers": 1, "decoder_layers": 1}
KINDS = {**VARIANTS, "adaptive softmax": {"adaptive_softmax_cutoff": [10, 30], "criterion": "adaptive_loss"}}


@pytest.mark.parametrize("name", [name for name in KINDS if name != "no cross-attention"])
def test_scores_are_pytorch_s(name, tmp_path):
    model = build(scatter=0.03, **{**SHALLOW, **KINDS[name]}).float().eval().without_fairseq()
    write_graphs(tmp_path, model)
    assert difference(OnnxModel(tmp_path, model, 1), model) < 1e-5


def test_the_command_and_what_it_refuses(tmp_path, monkeypatch, capsys):
    folder, export = make(tmp_path / "folder"), in_process("export onnx", monkeypatch)
    (folder / ".onnx.0123abcd.tmp").mkdir()  # a killed run's
    export(folder)
    assert not list(folder.glob(".*"))
    assert "wrote" in capsys.readouterr().out
    assert sorted(path.name for path in (folder / "onnx").iterdir()) == ["decoder_step.onnx", "encoder.onnx"]
    with pytest.raises(UserError, match="is there already"):
        export(folder)


@pytest.mark.parametrize(
    ("first", "change", "message"),
    [(5, 1.0, "by 2"), (5, float("nan"), "by nan"), (0, 1.0, "not the model's"), (0, None, " from encoder.onnx f")],
)
def test_graphs_of_another_model_are_not_written(tmp_path, monkeypatch, first, change, message):
    folder = make(tmp_path / "folder")

    def of_another(place, model):
        other, _, _ = model_folder.load(folder)
        with torch.no_grad():
            other.decoder.layers[1].mixing.mixing.weight[:, first:, :5] += change or 0
        write_graphs(place, other)
        if change is None:
            (place / "encoder.onnx").write_text("broken")

    monkeypatch.setattr(graphs, "write_graphs", of_another)
    with pytest.raises(UserError, match=f"^the graphs.*{message}.*: nothing is written$"):
        add_graphs(folder)
    assert not (folder / "onnx").exists()


def test_a_sentence_that_is_too_long_and_a_decoder_without_cross_attention_are_errors(tmp_path):
    ours = build().float().without_fairseq()
    write_graphs(tmp_path, ours)
    with pytest.raises(ValueError, match="65 positions, but the model has 64"):
        OnnxModel(tmp_path, ours, 1).encoder(batch(pairs((65, 1))[0]))
    with pytest.raises(UserError, match="no cross-attention"):
        write_graphs(tmp_path, build(no_cross_attention=True).without_fairseq())
