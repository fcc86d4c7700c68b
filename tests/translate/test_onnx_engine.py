"""ONNX Runtime in Translator: the results of PyTorch's engine, and what is refused."""

import shutil
import sys

import pytest
from translate.engines import GATED, OPTIONS, check_same_translations
from translate.small_folder import make

from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError
from resmlp_mt.export.graphs import add_graphs

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = make(tmp_path_factory.mktemp("model") / "folder", **GATED)  # every kind: tests/export/test_onnx.py
    assert add_graphs(made) < 1e-4
    return made


@pytest.mark.parametrize("options", OPTIONS)
def test_translations_are_those_of_pytorch_alone_and_in_batches(folder, options):
    check_same_translations(Translator(folder, engine="onnx"), Translator(folder), options)


def test_what_it_cannot_do_is_refused(folder, monkeypatch):
    with pytest.raises(UserError, match=r"^engine 'tensorflow': give one of pytorch, compiled, onnx"):
        Translator(folder, engine="tensorflow")
    with pytest.raises(UserError, match=r"^engine onnx: computes in fp32, not bf16"):
        Translator(folder, engine="onnx", precision="bf16")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match="needs ONNX Runtime: pip install onnxruntime"):
        Translator(folder, engine="onnx")


def test_graphs_that_are_not_there_broken_or_another_model_s(folder, tmp_path):
    other = make(tmp_path / "other", seed=1, **GATED)
    with pytest.raises(UserError, match=r"other/onnx: no such folder: run resmlp-mt export onnx .*other$"):
        Translator(other, engine="onnx")
    shutil.copytree(folder / "onnx", other / "onnx")
    with pytest.raises(UserError, match="other/onnx: not the graphs of this model"):
        Translator(other, engine="onnx")
    path = other / "onnx" / "decoder_step.onnx"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"other/onnx: cannot be used"):
        Translator(other, engine="onnx")
