"""A compiled model in Translator: PyTorch's results, in every batch; where it is cached; what is refused."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from translate.engines import GATED, OPTIONS, check_same_translations
from translate.small_folder import make

from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import checksum
from resmlp_mt.nn.config import OF_A
from resmlp_mt.nn.mixing_kinds import TOKEN_MIXINGS
from resmlp_mt.translate import compiled as loading
from resmlp_mt.translate import compiling, kernels, translator
from resmlp_mt.translate.checking import COMPARED, difference
from resmlp_mt.translate.compiled import own_cache, with_graphs
from resmlp_mt.translate.compiling import TRACED, StepGraph
from resmlp_mt.translate.graphs import EncoderGraph
from resmlp_mt.translate.model_folder import WEIGHTS, load

MIXED = {**GATED, "mixing_of_encoder_layers": "linear,attention", "mixing_of_decoder_layers": "gated,linear"}
KINDS = [
    {},
    {"mixing_relative": True, "mixing_heads": 1},
    {"decoder_positions": "learned"},
    GATED,
    MIXED,
    *({"token_mixing": kind, "layerscale_init": 0.5} for kind in TOKEN_MIXINGS if kind not in OF_A),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("model") / "folder", more=400, **MIXED)


@pytest.fixture(scope="module")
def compiled(folder, cache):
    """A translator with two threads, each of which searches its own batches."""
    before = torch.get_num_threads()
    yield Translator(folder, engine="compiled", threads=2)
    torch.set_num_threads(before)


@pytest.mark.parametrize("options", [*OPTIONS, *({"beam": n, "n_best": n, "max_len_b": 6} for n in (2, 40))])
def test_translations_are_those_of_pytorch_alone_and_in_batches(folder, compiled, options):
    """A wide beam has fewer choices at first; alignments are computed by PyTorch's modules, not by compiled graphs."""
    check_same_translations(compiled, Translator(folder), options)


@pytest.mark.parametrize("shortlist", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())) or "linear")
def test_what_is_compiled_computes_what_every_kind_of_model_does(tmp_path, kind, shortlist):
    kernels.load(own_cache())
    model, _, _ = load(make(tmp_path / "folder", more=400, **kind))
    parts = EncoderGraph(model), StepGraph(model, shortlist, first=True), StepGraph(model, shortlist, first=False)
    graphs = [lambda tensors, graph=graph: graph(*tensors) for graph in parts]
    translating = with_graphs(graphs, model.cfg, lambda: model, shortlist)
    assert difference(translating, model, shortlist, TRACED + COMPARED) < 1e-4


def test_it_is_compiled_once_and_again_for_other_weights(folder, compiled, cache, tmp_path, monkeypatch):
    def places() -> list[Path]:
        return sorted(path for path in cache.iterdir() if path.is_dir())

    (place,) = places()
    assert sorted(path.name for path in place.iterdir()) == ["encoder.pt2", "first.pt2", "later.pt2"]
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    other = shutil.copytree(folder, tmp_path / "other")
    (other / "README.md").write_text("another model card\n")
    Translator(other, engine="compiled")
    assert places() == [place]
    weights = load_file(other / WEIGHTS)
    weights["decoder.embed_tokens.weight"][5, 5] += 1e-3
    save_file(weights, other / WEIGHTS)
    monkeypatch.setattr(compiling, "compile_", refuse)
    with pytest.raises(UserError, match="compiled again"):
        Translator(other, engine="compiled")
    model, _, _ = load(folder)
    digest = checksum(folder / WEIGHTS)
    loading.compiled_model(model.cfg, digest, lambda: model, "fp32", shortlist=False)
    for precision, shortlist in ("fp32", True), ("bf16", False):
        with pytest.raises(UserError, match="compiled again"):
            loading.compiled_model(model.cfg, digest, lambda: model, precision, shortlist=shortlist)


def refuse(*_):
    raise UserError("compiled again")


def test_what_translating_does_not_use_is_not_loaded(folder, compiled, monkeypatch):
    """A model that is compiled already needs neither its weights in fp32 nor PyTorch's compiler."""
    monkeypatch.setattr(translator, "load_model", refuse)
    Translator(folder, engine="compiled").translate("a b")
    code = (
        "import sys; from resmlp_mt import Translator; Translator(sys.argv[1], engine='compiled').translate('a b'); "
        "sys.exit(bool({'torch._dynamo', 'torch._inductor'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)


@pytest.mark.parametrize("value", [0.5, float("nan")])
def test_what_was_compiled_wrongly_is_not_kept(tmp_path, monkeypatch, value):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wrong, _, _ = load(make(tmp_path / "other", **GATED))
    torch.nn.init.constant_(wrong.decoder.layers[0].mlp.fc1.weight, value)
    monkeypatch.setattr(compiling, "compile_", lambda *_: None)
    monkeypatch.setattr(loading, "_loaded", lambda *_: wrong)
    folder = make(tmp_path / "folder", **GATED)
    with pytest.raises(UserError, match="the compiled model computes something else than the model"):
        Translator(folder, engine="compiled")
    assert not [path for path in (tmp_path / "cache" / "resmlp_mt").iterdir() if path.is_dir()]


def test_without_a_compiler(folder, tmp_path, monkeypatch):
    def fails(*_):
        raise RuntimeError("No compiler found\nand much more")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiling, "compile_", fails)
    for _ in range(2):  # the second time it removes what a killed run left
        with pytest.raises(UserError, match=r"^engine compiled: .*: No compiler found: is there a "):
            Translator(folder, engine="compiled")
        (lock,) = tmp_path.glob("resmlp_mt/*.lock")
        lock.with_name(f".{lock.stem}.0123abcd.tmp").mkdir()


def test_a_cache_that_is_not_the_user_s_alone(folder, tmp_path, monkeypatch):
    (tmp_path / "resmlp_mt").mkdir()
    (tmp_path / "resmlp_mt").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"resmlp_mt: others can write there what would run: chmod 700"):
        Translator(folder, engine="compiled")
    with pytest.raises(UserError, match=r"^engine compiled and fp32: are for the device cpu, not cuda"):
        Translator(folder, engine="compiled", device="cuda")
