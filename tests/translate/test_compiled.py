"""A compiled model in Translator: what PyTorch's modules give, in every batch; where it is kept; what is refused."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from translate.engines import OPTIONS, check_same_alignments, check_same_translations
from translate.small_folder import SYMBOLS, make

from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError
from resmlp_mt.nn.encoder_decoder import fold_
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate import compiled as compiling
from resmlp_mt.translate.checking import COMPARED, difference
from resmlp_mt.translate.compiled import TRACED, StepGraph, compiled_model, with_graphs
from resmlp_mt.translate.graphs import EncoderGraph
from resmlp_mt.translate.model_folder import load
from resmlp_mt.translate.options import Options
from resmlp_mt.translate.precision import lower_precision_
from resmlp_mt.translate.search import LEAST, search

GATED = {"token_mixing": "gated", "mixing_band": 2, "layerscale_init": 0.5}
KINDS = [
    {},
    {"mixing_relative": True, "mixing_heads": 1},
    {"decoder_positions": "learned"},
    GATED,
    *({"token_mixing": kind, "mixing_heads": 1} for kind in ("none", "mlp", "conv", "depthwise", "separable")),
]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(home))
        yield home / "resmlp_mt"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("model") / "folder", more=LEAST, **GATED)


@pytest.fixture(scope="module")
def compiled(folder: Path) -> Translator:
    return Translator(folder, engine="compiled")


@pytest.mark.parametrize("options", OPTIONS)
def test_translations_and_scores_are_those_of_pytorch_alone_and_in_batches(
    folder: Path, compiled: Translator, options: dict
) -> None:
    check_same_translations(compiled, Translator(folder), options)


def test_what_is_not_compiled_is_computed_by_the_modules(folder: Path, compiled: Translator) -> None:
    check_same_alignments(compiled, Translator(folder))


def test_in_8_bits_and_with_a_shortlist_a_batch_changes_no_score(folder: Path) -> None:
    model, _, _ = load(folder)
    fold_(model)
    lower_precision_(model, "int8", ("output_projection",))
    both = compiled_model(model, "int8", shortlist=True)
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(END + 1, len(SYMBOLS), (9, 8), generator=generator)
    candidates = torch.randint(END + 1, len(SYMBOLS), (9, 20), generator=generator)
    candidates[:, 0] = END
    for row, length in enumerate([8, 8, 3, 5, 1, 8, 2, 7, 4]):
        source[row, length - 1], source[row, length:] = END, model.cfg.pad
    together = search(both, source, END, Options(), candidates)
    for row, found in enumerate(together):
        length = int(source[row].ne(model.cfg.pad).sum())
        (alone,) = search(both, source[row : row + 1, :length], END, Options(), candidates[row : row + 1])
        assert [each.tokens for each in alone] == [each.tokens for each in found]
        assert [each.score for each in alone] == pytest.approx([each.score for each in found], abs=1e-4)


@pytest.mark.parametrize("shortlist", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())) or "linear")
def test_what_is_compiled_computes_what_every_kind_of_model_does(tmp_path: Path, kind: dict, shortlist: bool) -> None:
    model, _, _ = load(make(tmp_path / "folder", more=LEAST, **kind))
    parts = EncoderGraph(model), StepGraph(model, shortlist, first=True), StepGraph(model, shortlist, first=False)
    graphs = [lambda tensors, graph=graph: graph(*tensors) for graph in parts]
    assert difference(with_graphs(graphs, model, shortlist), model, shortlist, TRACED + COMPARED) < 1e-4


@pytest.mark.parametrize("beam", [2, 40])
def test_a_wide_beam_has_less_to_choose_from_at_first(folder: Path, compiled: Translator, beam: int) -> None:
    text, options = "Well, no one sings here!", {"beam": beam, "n_best": beam, "max_len_b": 6}
    expected, found = (each.translate(text, **options) for each in (Translator(folder), compiled))
    assert [each.tokens for each in found] == [each.tokens for each in expected]


def test_it_is_compiled_once_and_again_for_another_model(folder: Path, compiled: Translator, cache: Path) -> None:
    model, _, _ = load(folder)
    fold_(model)
    name = compiling.name_of(model, "fp32", False)
    assert sorted(path.name for path in (cache / name).iterdir()) == ["encoder.pt2", "first.pt2", "later.pt2"]
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert compiling.name_of(model, "fp32", True) != name
    with torch.no_grad():
        model.decoder.embed_tokens.weight[5, 5] += 1e-3
    assert compiling.name_of(model, "fp32", False) != name


@pytest.mark.parametrize("value", [0.5, float("nan")])
def test_what_was_compiled_wrongly_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wrong, _, _ = load(make(tmp_path / "other", **GATED))
    torch.nn.init.constant_(wrong.decoder.layers[0].mlp.fc1.weight, value)
    monkeypatch.setattr(compiling, "compile_", lambda *_: None)
    monkeypatch.setattr(compiling, "_loaded", lambda *_: wrong)
    folder = make(tmp_path / "folder", **GATED)
    with pytest.raises(UserError, match="the compiled model computes something else than the model"):
        Translator(folder, engine="compiled")
    assert not [path for path in (tmp_path / "cache" / "resmlp_mt").iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("error", "told"),
    [(RuntimeError("No compiler found\nand much more"), "No compiler found"), (AssertionError(), "AssertionError")],
)
def test_without_a_compiler(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiling, "compile_", fails)
    with pytest.raises(UserError, match=f"^engine compiled: .*: {told}: is there a "):
        Translator(folder, engine="compiled")


def test_a_cache_that_is_not_the_user_s_alone(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "resmlp_mt"
    place.mkdir()
    place.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"resmlp_mt: others can write there what would run: chmod 700"):
        Translator(folder, engine="compiled")
    with pytest.raises(UserError, match=r"^engine compiled and fp32: are for the device cpu, not cuda"):
        Translator(folder, engine="compiled", device="cuda")
