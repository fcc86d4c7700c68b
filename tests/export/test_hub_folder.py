"""The command that exports a checkpoint as a folder: what is in the folder, and what is refused."""

import json
import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest
import torch
import yaml
from builders import VARIANTS, build, dictionary
from fairseq.dataclass.configs import GenerationConfig
from lab.analysis import small_models
from torch import nn

import resmlp_mt
from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError
from resmlp_mt.data.raw_text import RawText
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.export import hub_folder
from resmlp_mt.export.hub_folder import largest_difference, sources
from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint
from resmlp_mt.lab.benchmarks.real_text import TextEngine
from resmlp_mt.lab.benchmarks.systems import Conditions, Source, System
from resmlp_mt.text.words import Words
from resmlp_mt.translate import model_folder
from scripts import in_process

CODES = "#version: 0.2\nw 1</w>\n"


@pytest.fixture(scope="module")
def model():
    return build(scatter=0.03, share_all_embeddings=True).float()  # scores as large as a trained model's


@pytest.fixture(scope="module")
def checkpoint(model, tmp_path_factory):
    state, path = small_models.checkpoint(model), tmp_path_factory.mktemp("trained") / "model.pt"
    state["cfg"]["task"] = {"_name": "translation", "data": "/gone", "source_lang": "en", "target_lang": "de"}
    torch.save(state, path)
    return path


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A data folder: dictionaries, codes, and how its text was prepared."""
    folder = tmp_path_factory.mktemp("prepared")
    for language in "en", "de":
        dictionary().save(str(folder / f"dict.{language}.txt"))
    (folder / "codes").write_text(CODES)
    RawText(folder, ("en", "de"), Words(normalize=False), Subwords("bpe"), "bpe.codes").write(folder / "codes")
    return folder


@pytest.fixture(scope="module")
def export(prepared):
    """The command, by default with this data."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield lambda *options, data=prepared: in_process("export", monkeypatch)(*options, "--data", data)


def test_what_is_written_and_the_card(checkpoint, export, model, tmp_path):
    exported, scores = tmp_path / "en-de", tmp_path / "scores.json"
    score = {"score": 38.3, "signature": "nrefs:1|case:mixed", "name": "BLEU"}
    scores.write_text(json.dumps({"segments": 2, "scores": {"sacrebleu": score}}))
    (tmp_path / ".en-de.0123abcd.tmp").mkdir()  # a killed run's
    export(checkpoint, "--out", exported, "--license", "mit", "--scores", scores)
    assert sorted(tmp_path.iterdir()) == [exported, scores]
    assert {path.name for path in exported.iterdir()} == {
        *("config.json", "generation_config.json", "model.safetensors", "README.md"),
        *("tokenizer_config.json", "source_symbols.txt", "target_symbols.txt", "subwords.model"),
        *sources(),
    }
    assert len({path.stat().st_mode for path in exported.iterdir()}) == 1  # others may read all files or none
    written, tokenizer, generation = model_folder.load(exported)
    assert largest_difference(model, written) < 1e-5
    assert tokenizer.encode("w1") == [5, 2] and not tokenizer.settings.normalize
    assert generation["max_length"] == 65  # </s> and 64 positions
    for path in Path(resmlp_mt.__file__).with_name("nn").glob("[a-z]*.py"):
        assert (exported / path.name).read_bytes() == path.read_bytes()
    files = sources()  # they must find each other in one folder
    for content in files.values():
        assert "resmlp_mt." not in "".join(re.findall(r"^\s*(?:from|import) .*", content, re.MULTILINE))
        for name in re.findall(r"^\s*from \.(\S+) import", content, re.MULTILINE):
            assert f"{name}.py" in files
    _, head, text = (exported / "README.md").read_text().split("---\n", 2)
    told = yaml.safe_load(head)
    assert (told["language"], told["license"], told["pipeline_tag"]) == (["en", "de"], "mit", "translation")
    assert r"| sacrebleu | 38.3 | `nrefs:1\|case:mixed` |" in text
    assert 'from_pretrained("en-de", trust_remote_code=True)' in text
    assert "| checkpoints | model.pt, 5 updates |" in text


def test_a_difference_is_noticed(model):
    """Every variant's scores are compared in tests/fairseq_plugin/test_plain.py."""
    kinds = {"adaptive_softmax_cutoff": [10, 20], "criterion": "adaptive_loss"}, VARIANTS["unequal positions"]
    for same in (build(scatter=0.03, **options).float().eval() for options in kinds):
        assert largest_difference(same, same.without_fairseq()) < 1e-5
    other = model.without_fairseq()
    weight = other.decoder.layers[1].mixing.mixing.weight.detach()
    weight[5, 3] += 1
    assert largest_difference(model, other) > hub_folder.TOLERANCE
    weight[5, 3] = float("nan")
    assert largest_difference(model, other) == float("inf")


def test_a_benchmark_of_the_checkpoint_translates_as_the_folder(checkpoint, prepared, export, tmp_path):
    export(checkpoint, "--out", tmp_path / "en-de")
    state, texts = load_checkpoint(checkpoint), ["w1 w2 w3", "", "w4"]
    torch.save({**state, "cfg": {**state["cfg"], "generation": vars(GenerationConfig())}}, tmp_path / "model.pt")
    expected = [each.text for each in Translator(tmp_path / "en-de").translate(texts, beam=2)]
    about = {"conditions": Conditions(beam=2), "data": str(prepared), "languages": ("en", "de")}
    engine = TextEngine(Source(System(str(tmp_path / "model.pt")), **about), str(tmp_path))
    with closing(engine.process):
        assert engine.translate(texts)[0] == expected and all(expected[::2])


def test_several_checkpoints_are_averaged(model, checkpoint, export, tmp_path):
    state = load_checkpoint(checkpoint)
    state["model"] = {name: 3 * tensor for name, tensor in state["model"].items()}
    torch.save(state, tmp_path / "other.pt")
    export(checkpoint, tmp_path / "other.pt", "--out", tmp_path / "en-de")
    written, _, _ = model_folder.load(tmp_path / "en-de")
    torch.testing.assert_close(written.encoder.embed_tokens.weight, 2 * model.encoder.embed_tokens.weight)
    card = (tmp_path / "en-de" / "README.md").read_text()
    assert "average of model.pt, other.pt" in card and "license:" not in card


def test_with_graphs_and_codes_of_one_s_own(checkpoint, export, tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "codes").write_text(f"{CODES}w 2</w>\n")
    export(checkpoint, "--codes", tmp_path / "codes", "--onnx", "--out", tmp_path / "en-de")
    assert Translator(tmp_path / "en-de", engine="onnx").tokenizer.encode("w2") == [6, 2]


def test_mistakes_are_one_line_and_nothing_is_written(checkpoint, prepared, export, tmp_path, monkeypatch):
    out = tmp_path / "made" / "en-de"

    def refused(message, *options, data=prepared, out=out):
        with pytest.raises(UserError, match=message):
            export(checkpoint, "--out", out, *options, data=data)
        assert not (tmp_path / "made").exists() or not list((tmp_path / "made").iterdir())

    refused("is there already", out=tmp_path)
    unrecorded = shutil.copytree(prepared, tmp_path / "data", ignore=shutil.ignore_patterns("text.json"))
    refused(r"text\.json: cannot be read", data=unrecorded)
    refused("codes: no such file", "--codes", tmp_path / "codes")
    (tmp_path / "codes").write_text("a b c d\n")
    refused("codes: not the learned subwords of bpe", "--codes", tmp_path / "codes")
    refused("codes: not what resmlp-mt score --json prints", "--scores", tmp_path / "codes")
    monkeypatch.setattr(hub_folder, "largest_difference", lambda *_: float("nan"))
    refused("off fairseq's: nothing is written")


def test_a_layer_of_a_user_s_own_is_refused(model):
    shift = type("Shift", (nn.Module,), {})()
    with pytest.raises(UserError, match="the model has a Shift of test_hub_folder"):
        hub_folder.check_known(nn.Sequential(model.without_fairseq(), shift))
