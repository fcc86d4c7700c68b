"""Averages of checkpoints, and old checkpoints as models."""

import json
import os
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import batch, shifted
from crafted import save
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint
from resmlp_mt.fairseq_plugin.trained import average_checkpoints, last_checkpoints, load, model_of
from scripts import printed_by

OLD = Path(__file__).parent / "old_checkpoints"
FLOATS = {np.float16: 16, np.float32: 32, np.float64: 64}
ONE, NAN = torch.ones(3), torch.tensor([1.0, float("nan"), 1.0])
average = printed_by("average")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(data=st.data(), count=st.integers(1, 4), kind=st.sampled_from(list(FLOATS)))
def test_the_average_is_numpys_mean_in_float64(tmp_path, data, count, kind):
    shape = data.draw(arrays.array_shapes(min_dims=0, max_dims=3, max_side=3))
    values = st.floats(-1000, 1000, width=FLOATS[kind])
    drawn = [data.draw(arrays.arrays(kind, shape, elements=values)) for _ in range(count)]
    paths = [save(tmp_path / f"{i}.pt", {"w": torch.from_numpy(np.array(w))}) for i, w in enumerate(drawn)]
    result = average_checkpoints(paths)["model"]["w"]
    mean = torch.from_numpy(np.array(np.mean(np.stack(drawn).astype(np.float64), axis=0)))
    assert torch.equal(result, mean.to(result.dtype)) and result.numpy().dtype == kind


def test_all_that_is_no_weight_is_the_last_one_s_and_tied_embeddings_stay_tied(tmp_path):
    paths = []
    for i in 1, 2, 4:
        embedding = torch.randn(100, 16)
        model = {"encoder": embedding, "decoder": embedding, "transposed": embedding.t(), "steps": torch.tensor(i)}
        extra = {"train_iterator": {"epoch": i}, "ema": model}
        history = [{"criterion_name": "C", "optimizer_name": "Adam", "num_updates": i}]
        paths.append(save(tmp_path / f"{i}.pt", model, extra_state=extra, optimizer_history=history))
    result = average_checkpoints(paths)
    model = result["model"]
    assert model["steps"].item() == result["optimizer_history"][-1]["num_updates"] == 4
    assert result["extra_state"] == {"train_iterator": {"epoch": 4}}
    assert model["encoder"].data_ptr() == model["decoder"].data_ptr()
    assert torch.equal(model["transposed"], model["encoder"].t())


def test_the_same_inputs_give_the_same_bytes(tmp_path, average):
    unset = {"layers.0.conv.conv_bias": NAN}  # fairseq's DynamicConv neither sets nor uses it
    files = [save(tmp_path / f"checkpoint{epoch}.pt", {"w": torch.randn(7, 7), **unset}) for epoch in (1, 2, 3)]
    options = "--num-epoch-checkpoints", 2, "--checkpoint-upper-bound", 2
    (tmp_path / ".a.pt.0123abcd.tmp").touch()  # a killed run's
    for name in "a.pt", "b.pt", "b.pt":  # b.pt is written over
        average("--inputs", tmp_path, *options, "--output", tmp_path / name)
    average("--inputs", *files[:2], "--output", tmp_path / "c.pt")
    assert len({(tmp_path / name).read_bytes() for name in ("a.pt", "b.pt", "c.pt")}) == 1
    assert not list(tmp_path.glob(".*"))


def test_the_last_checkpoints_by_number(tmp_path):
    names = [f"checkpoint{e}.pt" for e in (1, 2, 9, 10, 11)] + ["checkpoint_2_500.pt", "checkpoint_10_1000.pt"]
    for name in [*names, "checkpoint_best.pt", "checkpoint_last.pt", "checkpoint12.pt.tmp"]:
        (tmp_path / name).touch()
    for arguments, expected in (
        ((3, "epoch"), ["checkpoint9.pt", "checkpoint10.pt", "checkpoint11.pt"]),
        ((2, "epoch", 9), ["checkpoint2.pt", "checkpoint9.pt"]),
        ((2, "update"), ["checkpoint_2_500.pt", "checkpoint_10_1000.pt"]),
        ((1, "update", 999), ["checkpoint_2_500.pt"]),
    ):
        assert last_checkpoints(tmp_path, *arguments) == [tmp_path / name for name in expected]
    with pytest.raises(UserError, match=r"has 5 epoch checkpoints, not 6"):
        last_checkpoints(tmp_path, 6, "epoch")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"w": ONE}, r"b is not as in .*1\.pt"),
        ({"w": ONE[None], "b": ONE}, r"w is not as in .*1\.pt"),
        ({"w": ONE.half(), "b": ONE}, r"w is not as in .*1\.pt"),
        ({"w": ONE, "b": NAN}, "b is not finite"),
    ],
)
def test_models_that_do_not_average_are_refused(tmp_path, model, message):
    paths = [save(tmp_path / "1.pt", {"w": ONE, "b": ONE}), save(tmp_path / "2.pt", model)]
    with pytest.raises(UserError, match=rf"2\.pt: {message}"):
        average_checkpoints(paths)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--inputs", "nowhere.pt"], "nowhere.pt: cannot be read: No such file"),
        (["--inputs", "good.pt", "folder/../good.pt"], "comes twice"),
        (["--inputs", "good.pt", "--output", "folder/../good.pt"], "would be written over the input"),
        (["--inputs", "nowhere", "--num-epoch-checkpoints", 2], "^nowhere: no such folder"),
        (["--inputs", "."], "--inputs .: give one directory"),
        (["--inputs", "a.pt", "b.pt", "--num-update-checkpoints", 2], "--inputs a.pt: give one directory"),
        # a training's own checkpoints are never replaced
        (["--inputs", ".", "--num-epoch-checkpoints", 2, "--output", "checkpoint_best.pt"], "written over the input"),
        (["--inputs", ".", "--num-epoch-checkpoints", 1, "--output", "checkpoint_1_9.pt"], "written over the input"),
        (["--inputs", "good.pt", "checkpoint1.pt", "--output", "checkpoint_best.pt"], "written over the input"),
    ],
)
def test_what_cannot_be_averaged_is_refused(tmp_path, monkeypatch, average, arguments, message):
    monkeypatch.chdir(tmp_path)
    os.mkdir("folder")
    names = "good.pt", "checkpoint1.pt", "checkpoint2.pt", "checkpoint_best.pt", "checkpoint_1_9.pt"
    before = {name: save(tmp_path / name).read_bytes() for name in names}
    with pytest.raises(UserError, match=message):
        average("--output", "out.pt", *arguments)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.pt")} == before


def test_fairseq_generates_with_the_average_and_refuses_to_resume_from_it(tmp_path, train, generate, average):
    train(tmp_path, "--max-update", 4, "--save-interval-updates", 1)  # an epoch has two
    path = tmp_path / "average.pt"
    average("--inputs", tmp_path, "--num-update-checkpoints", 2, "--output", path)
    assert path.stat().st_size < (tmp_path / "checkpoint_last.pt").stat().st_size
    generate("--results-path", tmp_path, path=path)
    assert (tmp_path / "generate-test.txt").read_text().count("\nH-") == 16
    with pytest.raises(AssertionError, match=r"please reset the optimizer .* none \(averaged checkpoint\)"):
        train(tmp_path, "--max-update", 5, "--restore-file", path)


def test_the_languages_are_told_by_the_checkpoint_or_the_data_and_are_no_paths(small, checkpoint, tmp_path):
    state = load_checkpoint(checkpoint)
    for told, known in (("de", "en"), ("de", "en")), ((None, None), ("de", "en")), (("en", None), ("en", "de")):
        state["cfg"]["task"].update(source_lang=told[0], target_lang=told[1])
        torch.save(state, tmp_path / "told.pt")
        assert load([tmp_path / "told.pt"], small / "bin").languages == known
    state["cfg"]["task"]["source_lang"] = "../../secret"
    torch.save(state, tmp_path / "told.pt")
    with pytest.raises(UserError, match=r"--source-lang \.\./\.\./secret: .* is data of de and en"):
        load([tmp_path / "told.pt"], small / "bin")


@pytest.mark.parametrize("kind", ["linear", "gated"])
@torch.no_grad()
def test_old_checkpoints_load_as_data_and_score_as_they_did(kind):
    """fairseq-train wrote them with this plugin at commit 30dd792."""
    path = OLD / f"{kind}.pt"
    with torch.serialization.safe_globals([Namespace]):  # for its options; PyTorch allows all else
        torch.load(path, weights_only=True)
    model = model_of(path, load_checkpoint(path))
    recorded = json.loads((OLD / "scores.json").read_text())
    sources, targets = recorded["sources"], recorded["targets"]
    scores = model(batch(sources), None, batch(shifted(targets)))[0].log_softmax(-1)
    for row, target, known in zip(scores, targets, recorded[kind], strict=True):
        torch.testing.assert_close(row[torch.arange(len(target)), target], torch.tensor(known), rtol=0, atol=1e-5)
