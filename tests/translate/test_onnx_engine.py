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


KINDS = {"linear": {}, "gated": GATED, "ema": {"token_mixing": "ema", "layerscale_init": 0.5}}
KINDS |= {kind: {"token_mixing": kind} for kind in ("attention", "ssru")}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def folder(request, tmp_path_factory):
    made = make(tmp_path_factory.mktemp("model") / "folder", **request.param)
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
    other = make(tmp_path / "other", seed=1)
    with pytest.raises(UserError, match=r"other/onnx: cannot be used: .*: remove it and run resmlp-mt export onnx"):
        Translator(other, engine="onnx")
    shutil.copytree(folder / "onnx", other / "onnx")
    with pytest.raises(UserError, match="other/onnx: not the graphs of this model"):
        Translator(other, engine="onnx")
    path = other / "onnx" / "decoder_step.onnx"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"other/onnx: cannot be used") as error:
        Translator(other, engine="onnx")
    assert "\n" not in str(error.value)
