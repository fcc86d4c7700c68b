"""resmlp-mt plot: what it writes and what it refuses."""

import base64
import json
import re

import builders
import pytest
import torch
from small_models import checkpoint, untrained

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint

pytest.importorskip("matplotlib")

LAYERS = ["encoder-1", "encoder-2", "decoder-1", "decoder-2"]


def addresses(text):
    """Return a page's pictures, as bytes, and the sections that it links to; check that it needs no other file."""
    found = re.findall(r'(?:src|href|srcset|data)="([^"]*)"', text)
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in found)
    assert "url(" not in text and "@import" not in text and "<script" not in text
    pictures = [base64.b64decode(address.partition(",")[2]) for address in found if address.startswith("data:")]
    return pictures, [address[1:] for address in found if address.startswith("#")]


@pytest.fixture
def saved(trained, tmp_path):
    path = tmp_path / "checkpoint9.pt"
    torch.save(trained, path)
    return path


@pytest.fixture
def undrawn(monkeypatch):
    """Write empty files instead of pictures, which take most of the time."""
    monkeypatch.setattr("resmlp_mt.lab.drawing.png", lambda figure: b"")


def test_everything_is_written_and_gathered_on_one_page_the_same_each_time(plot_mixing, saved, tmp_path):
    out = tmp_path / "deep" / "mixing"
    printed = plot_mixing(saved, "--out", out)
    assert printed.splitlines()[:2] == ["encoder: positions 1 to 6", "decoder: positions 1 to 8"]
    names = {f"{name}.png" for name in ("overview", "profiles", "sparsity", *LAYERS)}
    assert {path.name for path in out.iterdir()} == names | {"index.html", "mixing.json"}
    text = (out / "index.html").read_text(encoding="utf-8")
    pictures, sections = addresses(text)
    assert set(pictures) == {(out / name).read_bytes() for name in names}
    assert sections == re.findall(r'<h2 id="(.*?)">', text)
    assert "encoder, 1 to 6 of 64; decoder, 1 to 8 of 64, found from the optimizer&#x27;s state" in text

    plot_mixing(saved, "--out", tmp_path / "again")
    for path in out.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def test_figures_are_those_of_the_weights(plot_mixing, undrawn, saved, trained, tmp_path):
    plot_mixing(saved, "--out", tmp_path, "--length", 7)
    found = json.loads((tmp_path / "mixing.json").read_text())
    assert found["used"] == {"encoder": 7, "decoder": 7, "how": "as given by --length"}
    (one,) = found["checkpoints"]
    assert (one["updates"], one["architecture"]) == (5, "resmlp_transformer_tiny")
    layers = [(each["side"], each["layer"]) for each in one["mixing"]]
    assert layers == [("encoder", 1), ("encoder", 2), ("decoder", 1), ("decoder", 2)]
    (profile,) = one["mixing"][2]["heads"]
    weight = trained["model"]["decoder.layers.0.mixing.mixing.weight"]
    assert profile["offsets"] == list(range(-6, 1))
    assert profile["mean"][-2] == pytest.approx(sum(weight[i + 1, i].item() for i in range(6)) / 6)

    assert len(one["sparsity"]) == 4 * 3 + 2 * 4
    values = sorted(abs(weight[i, j].item()) for i in range(7) for j in range(i + 1))
    small = sum(value < 0.05 * values[-1] for value in values) / 28
    assert ("decoder", 1, "A", pytest.approx(small)) in [tuple(each.values()) for each in one["sparsity"]]


def test_the_page_has_the_small_weights_of_layers_without_a_matrix_too(plot_mixing, undrawn, tmp_path):
    options = {"mixing_of_decoder_layers": "ssru,linear"}
    torch.save(checkpoint(untrained(**options), options=options), tmp_path / "mixed.pt")
    plot_mixing(tmp_path / "mixed.pt", "--out", tmp_path / "out")
    (*_, table) = re.findall("<table>.*?</table>", (tmp_path / "out" / "index.html").read_text(), re.DOTALL)
    assert re.findall(r"(?:en|de)coder \d", table) == ["encoder 1", "encoder 2", "decoder 1", "decoder 2"]


def test_several_checkpoints_show_their_change(plot_mixing, undrawn, saved, before_training, tmp_path):
    torch.save(checkpoint(before_training), tmp_path / "checkpoint1.pt")
    out = tmp_path / "out"
    plot_mixing(tmp_path / "checkpoint1.pt", saved, "--out", out)
    assert {path.stem for path in out.glob("change-*.png")} == {f"change-{name}" for name in LAYERS}
    assert len(addresses((out / "index.html").read_text())[0]) == 3 + 2 * len(LAYERS)
    found = json.loads((out / "mixing.json").read_text())["checkpoints"]
    assert [each["checkpoint"] for each in found] == [str(tmp_path / "checkpoint1.pt"), str(saved)]


def test_pruned_checkpoints_are_written_one_a_share(plot_mixing, undrawn, saved, tmp_path):
    plot_mixing(saved, "--out", tmp_path / "out", "--prune", "0.25", "1")
    plot_mixing(saved, "--out", tmp_path / "again", "--prune", "0.25")
    assert (tmp_path / "out" / "pruned-0.25.pt").read_bytes() == (tmp_path / "again" / "pruned-0.25.pt").read_bytes()
    for share, zeros in ("0.25", 9), ("1", 36):
        model = load_checkpoint(tmp_path / "out" / f"pruned-{share}.pt")["model"]
        assert (model["decoder.layers.1.mixing.mixing.weight"][:8, :8].tril() == 0).sum() == 28 + zeros
        assert (model["encoder.layers.1.mixing.mixing.weight"] == 0).sum() == zeros


def test_bands_are_shown_with_the_text_that_they_depend_on(plot_mixing, tmp_path):
    data = tmp_path / "data-bin"
    data.mkdir()
    for lang, sentences in zip(("en", "de"), builders.pairs((5, 4), (3, 6)), strict=True):
        builders.dictionary().save(str(data / f"dict.{lang}.txt"))
        builders.binarize(data, "valid", lang, sentences)
    options = {"token_mixing": "gated", "mixing_band": 2}
    torch.save(checkpoint(untrained(**options), options=options), tmp_path / "banded.pt")
    out = tmp_path / "out"
    plot_mixing(tmp_path / "banded.pt", "--out", out, "--data", data, "--sentence", 2)
    found = json.loads((out / "mixing.json").read_text())["bands"]
    shown = [(each["side"], each["layer"], len(each["tokens"])) for each in found]
    assert shown == [("encoder", 1, 3), ("encoder", 2, 3), ("decoder", 1, 6), ("decoder", 2, 6)]
    pictures, _ = addresses((out / "index.html").read_text())
    assert {(out / f"{name}.png").read_bytes() for name in ("bands", "bands-sentence")} <= set(pictures)

    with pytest.raises(UserError, match="--sentence 3: the text has 2 sentences: give one of them"):
        plot_mixing(tmp_path / "banded.pt", "--out", tmp_path / "no", "--data", data, "--sentence", 3)
    assert not (tmp_path / "no").exists()


def test_a_checkpoint_is_not_written_over(plot_mixing, undrawn, saved, tmp_path):
    path = saved.rename(tmp_path / "pruned-1.pt")
    before = path.read_bytes()
    with pytest.raises(UserError, match=r"pruned-1\.pt: would be written over the input"):
        plot_mixing(path, "--out", tmp_path, "--prune", "1")
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == before
    for name in "index.html", "encoder-1.png":
        (tmp_path / name).write_text("mine")
        with pytest.raises(UserError, match=f"{name}: is not of an earlier run"):
            plot_mixing(path, "--out", tmp_path)


def test_what_cannot_be_looked_at_is_refused_in_one_line(plot_mixing, saved, tmp_path):
    def refused(message, *names, options=()):
        with pytest.raises(UserError, match=message):
            plot_mixing(*[tmp_path / name for name in names], "--out", tmp_path / "out", *options)
        assert not (tmp_path / "out").exists()

    attention = {"encoder.layers.0.self_attn.q_proj.weight": torch.randn(8, 8)}
    torch.save(checkpoint(attention, arch="transformer_iwslt_de_en"), tmp_path / "transformer.pt")
    options = {"token_mixing": "mlp"}
    torch.save(checkpoint(untrained(**options), options=options), tmp_path / "mlp.pt")

    refused(r"transformer\.pt: holds a transformer_iwslt_de_en: give", "transformer.pt")
    refused(r"mlp\.pt: the token mixing of no layer is a matrix", "mlp.pt")
    refused(r"--length 65: the model has 64 positions: give 2 to 64", saved.name, options=("--length", 65))
