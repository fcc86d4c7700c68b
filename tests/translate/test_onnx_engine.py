"""ONNX Runtime in Translator: what PyTorch's engine gives, and what is refused."""

import shutil
import sys
from pathlib import Path

import pytest
from translate.engines import OPTIONS, check_same_alignments, check_same_translations
from translate.small_folder import make

from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError
from resmlp_mt.export.graphs import add_graphs

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


# With a layerscale of 1 the values of such random weights grow until rounding alone is 2e-4 of a score (seen in fp64).
GATED = {"token_mixing": "gated", "mixing_band": 2, "layerscale_init": 0.5}


@pytest.fixture(scope="module", params=[{}, GATED], ids=["linear", "gated"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make(tmp_path_factory.mktemp("model") / "folder", **request.param)
    assert add_graphs(made) < 1e-4
    return made


@pytest.mark.parametrize("options", OPTIONS)
def test_translations_and_scores_are_those_of_pytorch_alone_and_in_batches(folder: Path, options: dict) -> None:
    check_same_translations(Translator(folder, engine="onnx"), Translator(folder), options)


def test_alignments_are_those_of_pytorch(folder: Path) -> None:
    check_same_alignments(Translator(folder, engine="onnx"), Translator(folder))


def test_what_it_cannot_do_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"^engine 'tensorflow': give one of pytorch, compiled, onnx"):
        Translator(folder, engine="tensorflow")
    with pytest.raises(UserError, match=r"^engine onnx: computes in fp32, not bf16"):
        Translator(folder, engine="onnx", precision="bf16")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match="needs ONNX Runtime: pip install onnxruntime"):
        Translator(folder, engine="onnx")


def test_graphs_that_are_not_there_broken_or_another_model_s(folder: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "other", seed=1)
    with pytest.raises(UserError, match=r"other/onnx: cannot be used: .*: write it again by resmlp-mt export onnx"):
        Translator(other, engine="onnx")
    shutil.copytree(folder / "onnx", other / "onnx")
    with pytest.raises(UserError, match=r"other/onnx: (not the graphs of this model|cannot be used)"):
        Translator(other, engine="onnx")
    path = other / "onnx" / "decoder_step.onnx"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"other/onnx: cannot be used") as error:
        Translator(other, engine="onnx")
    assert "\n" not in str(error.value)
