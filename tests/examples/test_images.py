"""examples/images: the papers' sizes, the same function as the published models, training, prediction, pictures."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from resmlp_mt.common.errors import UserError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "images"
MODULES = "models", "convert", "predict", "train"
TIMM = {"resmlp_12_224": "resmlp-s12", "resmlp_big_24_224": "resmlp-b24/8", "mixer_s16_224": "mixer-s/16"}


@pytest.fixture(scope="module")
def images():
    """The example's modules by name; only the tests of this file can import them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(EXAMPLE)
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
        for name in MODULES:
            del sys.modules[name]


@pytest.fixture
def run(images, monkeypatch, capsys):
    """A function that runs a script with arguments, in this process, and returns what it prints."""

    def main(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        getattr(images, name).main()
        return capsys.readouterr().out

    return main


def test_parameters_are_as_many_as_in_the_papers(images):
    sizes = {"resmlp-s12": 15.4, "resmlp-b24": 115.7, "resmlp-b24/8": 129.1, "resmlp-s12-class-mlp": 17.7}
    whole = {"mixer-s/32": 19, "mixer-b/16": 59, "b-mlp-12/1024": 124}  # millions, rounded down
    with torch.device("meta"):
        counts = {name: images.models.count(images.models.ImageModel(of)) for name, of in images.models.MODELS.items()}
    assert {name: round(counts[name] / 1e6, 1) for name in sizes} == sizes
    assert {name: counts[name] // 10**6 for name in whole} == whole
    inner = 5 * (1024 * 1024 + 1024 + 2 * 1024)  # an S-MLP is linear layers with norms between them
    assert counts["s-mlp-6/1024"] == 3 * 64 * 64 * 1024 + 1024 + inner + 1024 * 11230 + 11230


def published(kind, dim=12, depth=2, patch=4, side=3, classes=5):
    """Return random weights of a ResMLP (``"resmlp"``) or an MLP-Mixer (``"mixer"``) under timm's names."""
    torch.manual_seed(3)
    shapes = {"stem.proj": (dim, 3, patch, patch), "head": (classes, dim)}
    scales = ["norm"]
    for i in range(depth):
        scales += [f"blocks.{i}.norm1", f"blocks.{i}.norm2"]
        shapes |= {f"blocks.{i}.mlp_channels.fc1": (4 * dim, dim), f"blocks.{i}.mlp_channels.fc2": (dim, 4 * dim)}
        if kind == "resmlp":
            shapes[f"blocks.{i}.linear_tokens"] = (side**2, side**2)
        else:
            shapes |= {f"blocks.{i}.mlp_tokens.fc1": (7, side**2), f"blocks.{i}.mlp_tokens.fc2": (side**2, 7)}
    weights = {f"{name}.weight": torch.randn(shape) / 2 for name, shape in shapes.items()}
    weights |= {f"{name}.bias": torch.randn(shape[0]) for name, shape in shapes.items()}
    if kind == "resmlp":
        weights |= {f"{name}.{which}": torch.randn(1, 1, dim) for name in scales for which in ("alpha", "beta")}
        weights |= {f"blocks.{i}.ls{number}": torch.randn(dim) for i in range(depth) for number in (1, 2)}
    else:
        weights |= {f"{name}.{which}": torch.randn(dim) for name in scales for which in ("weight", "bias")}
    return weights


def by_authors(weights):
    """Return weights with timm's names under the names of the authors' repository."""
    pairs = [("stem.", "patch_embed."), ("linear_tokens.", "attn."), ("mlp_channels.", "mlp."), (".ls", ".gamma_")]
    found = {}
    for name, value in weights.items():
        for theirs, authors in pairs:
            name = name.replace(theirs, authors)
        found[name] = value.flatten() if name.endswith((".alpha", ".beta")) else value
    return found


def logits(weights, images, patch=4):
    """Return the logits by the papers' equations, from weights with timm's names; activations are B x T x C here."""

    def linear(name, x):
        return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(name, x):
        if f"{name}.alpha" in weights:
            return weights[f"{name}.alpha"] * x + weights[f"{name}.beta"]
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-6)

    def mlp(name, x):
        return linear(f"{name}.fc2", F.gelu(linear(f"{name}.fc1", x)))

    x = F.conv2d(images, weights["stem.proj.weight"], weights["stem.proj.bias"], patch).flatten(2).transpose(1, 2)
    for i in range(2):
        block, mixer = f"blocks.{i}", "blocks.0.mlp_tokens.fc1.bias" in weights
        turned = norm(f"{block}.norm1", x).transpose(1, 2)
        mixed = mlp(f"{block}.mlp_tokens", turned) if mixer else linear(f"{block}.linear_tokens", turned)
        x = x + weights.get(f"{block}.ls1", 1) * mixed.transpose(1, 2)
        x = x + weights.get(f"{block}.ls2", 1) * mlp(f"{block}.mlp_channels", norm(f"{block}.norm2", x))
    return linear("head", norm("norm", x).mean(1))


@pytest.mark.parametrize(("kind", "whose"), [("resmlp", "timm"), ("resmlp", "authors"), ("mixer", "timm")])
def test_published_weights_give_their_logits_and_come_back(images, run, tmp_path, kind, whose):
    theirs = published(kind)
    given = by_authors(theirs) if whose == "authors" else theirs
    torch.save(given, tmp_path / "published.pth")
    assert "2 layers of 12 channels, images of 12 pixels" in run("convert", tmp_path / "published.pth")
    model, names = images.convert.read_model(tmp_path / "published.ours.pt")
    x = torch.randn(3, 3, 12, 12)
    torch.testing.assert_close(model(x), logits(theirs, x), rtol=1e-5, atol=1e-4)
    assert not names and images.models.count(model) == sum(value.numel() for value in theirs.values())

    run("convert", tmp_path / "published.ours.pt", "--to", whose, "--out", tmp_path / "back.pth")
    torch.testing.assert_close(torch.load(tmp_path / "back.pth", weights_only=True), given, rtol=0, atol=0)


@pytest.mark.parametrize("name", TIMM)
def test_logits_are_timm_s(images, name):
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision was built for another PyTorch
        pytest.skip(f"needs timm: {error}")
    cfg, ours, convert = images.models.MODELS[TIMM[name]], images.models.ImageModel, images.convert
    with torch.device("meta"):
        theirs = timm.create_model(name).eval()
        assert images.models.count(ours(cfg)) == images.models.count(theirs)
    torch.manual_seed(0)
    theirs.blocks = theirs.blocks[:2]  # all blocks are alike
    theirs.to_empty(device="cpu")
    for value in theirs.state_dict().values():
        vector = value.numel() == max(value.shape)
        torch.nn.init.uniform_(value, -1, 1) if vector else value.normal_(std=value[0].numel() ** -0.5)
    model = ours(images.models.replace(cfg, depth=2)).eval()
    model.load_state_dict(convert.to_ours(theirs.state_dict()))
    torch.testing.assert_close(convert.to_theirs(model, "timm"), dict(theirs.state_dict()), rtol=0, atol=0)
    x = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        torch.testing.assert_close(model(x), theirs(x), rtol=1e-4, atol=1e-4)


def test_a_class_token_reads_the_patches_and_itself(images):
    torch.manual_seed(1)
    cfg = images.models.LayerConfig(dim=4, hidden_dim=8, positions=6, layerscale_init=0.5)
    layer = images.models.ClassMLPLayer(cfg)
    token, patches = torch.randn(1, 2, 4), torch.randn(6, 2, 4)
    weights = layer.row.weight[0]
    z = token[0] + 0.5 * (weights[0] * token[0] + torch.einsum("t,tbc->bc", weights[1:], patches) + layer.row.bias)
    torch.testing.assert_close(layer(token, patches)[0], z + 0.5 * layer.mlp.fc2(F.gelu(layer.mlp.fc1(z))))


def test_every_small_model_is_trained_in_all_its_parts(images):
    for name, cfg in images.models.DIGITS.items():
        model = images.models.ImageModel(cfg)
        F.cross_entropy(model(torch.rand(4, 1, 8, 8)), torch.arange(4)).backward()
        for key, value in model.named_parameters():
            assert value.grad is not None and value.grad.abs().sum() > 0, (name, key)
        assert 25_000 < images.models.count(model) < 45_000
        assert any("post_affine" in key for key in model.state_dict()) == (cfg.norm == "affine"), name


def test_digits_are_learned_and_told(images, run, tmp_path):
    out = run("train", "--model", "b-mlp", "--epochs", 4, "--out", tmp_path / "model.pt")
    assert float(out.split("parameters, ")[1].split("%")[0]) > 75
    pixels = 0.3 + 0.4 * images.train.digits().test_images[3, 0].numpy()
    Image.fromarray((255 * np.pad(pixels, 1)).astype(np.uint8)).resize((80, 80)).save(tmp_path / "digit.png")
    lines = run("predict", tmp_path / "digit.png", "--model", tmp_path / "model.pt").splitlines()
    assert len(lines) == 5 and lines[0].endswith(f"  {images.train.digits().test_labels[3]}")


def test_weights_of_another_model_are_refused_in_a_line(images, run, tmp_path):
    weights = published("resmlp")
    del weights["blocks.1.ls2"]
    torch.save(weights, tmp_path / "part.pth")
    with pytest.raises(UserError, match=r"layers\.1\.mlp\.post_affine\.alpha is in this file or in the model"):
        run("convert", tmp_path / "part.pth")
    (tmp_path / "text.pth").write_text("one\ntwo\n")
    with pytest.raises(UserError, match=r"text\.pth: not the weights of a ResMLP or an MLP-Mixer"):
        run("convert", tmp_path / "text.pth")
