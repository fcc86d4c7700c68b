import os
import sys
from argparse import Namespace
from pathlib import Path

import fairseq_cli.generate
import fairseq_cli.preprocess
import fairseq_cli.train
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.trained import average_checkpoints, last_checkpoints, save_checkpoint
from resmlp_mt.score.bleu import tokenized_bleu
from resmlp_mt.score.generate_output import in_order, read_generate_output
from scripts import in_process


def state(model, updates=1):
    """What fairseq's trainer saves, in little."""
    optimizer = {"criterion_name": "C", "optimizer_name": "FairseqAdam", "num_updates": updates}
    return {
        "args": None,
        "cfg": {"model": Namespace(arch="tiny")},
        "model": model,
        "criterion": None,
        "optimizer_history": [optimizer],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": updates}, "ema": model},
        "last_optimizer_state": {"state": torch.zeros(1000)},
    }


def save(path, model, updates=1):
    torch.save(state(model, updates), path)
    return path


@pytest.fixture
def average(monkeypatch):
    """Run scripts/average_checkpoints.py with these arguments."""
    return in_process("average", monkeypatch)


FLOATS = {np.float16: 16, np.float32: 32, np.float64: 64}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(data=st.data(), count=st.integers(1, 4), kind=st.sampled_from(list(FLOATS)))
def test_the_average_is_numpys_mean_in_float64(tmp_path, data, count, kind):
    shape = data.draw(arrays.array_shapes(min_dims=0, max_dims=3, max_side=3))
    values = st.floats(-1000, 1000, width=FLOATS[kind])
    drawn = [data.draw(arrays.arrays(kind, shape, elements=values)) for _ in range(count)]
    paths = [save(tmp_path / f"{i}.pt", {"w": torch.from_numpy(np.array(w))}) for i, w in enumerate(drawn)]
    result = average_checkpoints(paths)["model"]["w"]
    mean = torch.from_numpy(np.array(np.mean(np.stack(drawn).astype(np.float64), axis=0)))
    assert torch.equal(result, mean.to(result.dtype))
    assert result.numpy().dtype == kind


def test_integers_and_everything_else_are_the_last_ones(tmp_path):
    paths = [
        save(
            tmp_path / f"{i}.pt", {"w": torch.tensor([float(i)]), "steps": torch.tensor(i), "on": torch.tensor(True)}, i
        )
        for i in (1, 2, 4)
    ]
    result = average_checkpoints(paths)
    assert result["model"]["steps"].item() == 4
    assert result["model"]["w"].dtype == torch.float32
    assert result["cfg"] == state({})["cfg"]
    assert result["optimizer_history"][-1]["num_updates"] == 4
    assert result["extra_state"] == {"train_iterator": {"epoch": 4}}


def test_tied_embeddings_stay_tied(tmp_path):
    paths = []
    for i in range(3):
        embedding = torch.randn(100, 16)
        model = {"encoder": embedding, "decoder": embedding, "transposed": embedding.t()}
        paths.append(save(tmp_path / f"{i}.pt", model))
    model = average_checkpoints(paths)["model"]
    assert model["encoder"].data_ptr() == model["decoder"].data_ptr()
    assert torch.equal(model["transposed"], model["encoder"].t())


def test_the_same_inputs_give_the_same_bytes(tmp_path, average):
    for epoch in (1, 2):
        save(tmp_path / f"checkpoint{epoch}.pt", {"w": torch.randn(7, 7)})
    for name in ("a.pt", "b.pt"):
        average("--inputs", tmp_path, "--num-epoch-checkpoints", 2, "--output", tmp_path / name)
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "b.pt").read_bytes()
    average("--inputs", tmp_path / "checkpoint1.pt", tmp_path / "checkpoint2.pt", "--output", tmp_path / "c.pt")
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "c.pt").read_bytes()


def test_the_last_checkpoints_by_number(tmp_path):
    names = [f"checkpoint{e}.pt" for e in (1, 2, 9, 10, 11)] + ["checkpoint_2_500.pt", "checkpoint_10_1000.pt"]
    for name in [*names, "checkpoint_best.pt", "checkpoint_last.pt", "checkpoint12.pt.tmp"]:
        (tmp_path / name).touch()

    def last(*args):
        return [path.name for path in last_checkpoints(tmp_path, *args)]

    assert last(3, "epoch") == ["checkpoint9.pt", "checkpoint10.pt", "checkpoint11.pt"]
    assert last(2, "epoch", 9) == ["checkpoint2.pt", "checkpoint9.pt"]
    assert last(2, "update") == ["checkpoint_2_500.pt", "checkpoint_10_1000.pt"]
    assert last(1, "update", 999) == ["checkpoint_2_500.pt"]
    with pytest.raises(
        UserError, match=r"6 epoch .* there are 5 \(checkpoint1.pt, checkpoint2.pt, .*checkpoint11.pt\)"
    ):
        last(6, "epoch")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"w": torch.ones(2, 3)}, r"2.pt: b is not as in .*1.pt"),
        ({"w": torch.ones(2, 3), "b": torch.ones(3), "c": torch.ones(1)}, r"2.pt: c is not as in .*1.pt"),
        ({"w": torch.ones(3, 2), "b": torch.ones(3)}, r"2.pt: w is not as in .*1.pt"),
        ({"w": torch.ones(2, 3).half(), "b": torch.ones(3)}, r"2.pt: w is not as in .*1.pt"),
        ({"w": torch.ones(2, 3), "b": torch.tensor([1.0, float("nan"), 1.0])}, r"2.pt: b is not finite"),
    ],
)
def test_models_that_do_not_average_are_refused(tmp_path, model, message):
    first = save(tmp_path / "1.pt", {"w": torch.ones(2, 3), "b": torch.ones(3)})
    second = save(tmp_path / "2.pt", model)
    with pytest.raises(UserError, match=message):
        average_checkpoints([first, second])


def test_files_that_are_no_checkpoints_are_refused(tmp_path, average):
    (tmp_path / "text.pt").write_text("not a checkpoint\n" * 9)
    torch.save({"w": torch.ones(1)}, tmp_path / "weights.pt")
    save(tmp_path / "empty.pt", {})
    good = save(tmp_path / "good.pt", {"w": torch.ones(1)})
    out = tmp_path / "out.pt"
    for inputs, message in [
        (["text.pt"], "text.pt: not loaded"),
        (["weights.pt"], "weights.pt: not loaded: not a checkpoint of fairseq-train"),
        (["empty.pt", "good.pt"], "empty.pt: not loaded: not a checkpoint of fairseq-train"),
        (["nowhere.pt"], "nowhere.pt: cannot be read: No such file"),
        (["good.pt", "../" + tmp_path.name + "/good.pt"], "comes twice"),
    ]:
        with pytest.raises(UserError, match=message):
            average("--inputs", *[tmp_path / name for name in inputs], "--output", out)
    before = good.read_bytes()
    with pytest.raises(UserError, match="would be written over the input"):
        average("--inputs", good, "--output", tmp_path / "x" / ".." / "good.pt")
    assert good.read_bytes() == before and not out.exists()


@pytest.mark.parametrize("name", ["checkpoint1.pt", "checkpoint_1_9.pt", "checkpoint_last.pt", "checkpoint_best.pt"])
def test_a_training_s_other_checkpoints_are_not_written_over(tmp_path, average, name):
    for number in 2, 3:
        save(tmp_path / f"checkpoint{number}.pt", {"w": torch.ones(1)})
    (tmp_path / name).write_text("of hours")
    with pytest.raises(UserError, match=f"{name}: would be written over the input"):
        average("--inputs", tmp_path, "--num-epoch-checkpoints", 2, "--output", tmp_path / name)
    assert (tmp_path / name).read_text() == "of hours"
    for _ in range(2):  # an average is
        average("--inputs", tmp_path, "--num-epoch-checkpoints", 2, "--output", tmp_path / "checkpoint_avg.pt")


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"out.pt: cannot be written: No space left on device"):
        save_checkpoint(state({"w": torch.ones(1)}), tmp_path / "out.pt")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "args",
    [
        ["--inputs", "."],
        ["--inputs", ".", "--num-epoch-checkpoints", "0"],
        ["--inputs", "a.pt", "b.pt", "--num-update-checkpoints", "2"],
        ["--inputs", "a.pt", "--checkpoint-upper-bound", "2"],
    ],
)
def test_options_that_do_not_go_together_are_refused(average, args):
    with pytest.raises(UserError, match=r"--inputs \S+: give one directory|give 1 or more"):
        average(*args, "--output", "out.pt")


def test_fairseq_generates_with_the_average_and_refuses_to_resume_from_it(tmp_path, monkeypatch, average):
    monkeypatch.chdir(tmp_path)

    def fairseq(command, *args):
        monkeypatch.setattr(sys, "argv", ["fairseq", *args])
        command.cli_main()

    for lang in ("en", "de"):
        Path(f"text.{lang}").write_text("".join(f"a{i % 3} b{i % 5} c\n" for i in range(20)))
    fairseq(
        fairseq_cli.preprocess, "-s", "en", "-t", "de", "--trainpref", "text", "--validpref", "text",
        "--testpref", "text", "--destdir", "bin", "--joined-dictionary",
    )  # fmt: skip
    train = [
        "bin", "--arch", "resmlp_transformer_tiny", "--optimizer", "adagrad", "--lr", "0.1", "--max-tokens", "200",
        "--cpu", "--seed", "1", "--save-dir", "out", "--log-format", "none", "--num-workers", "0",
    ]  # fmt: skip
    fairseq(fairseq_cli.train, *train, "--max-epoch", "6")
    average("--inputs", "out", "--num-epoch-checkpoints", "2", "--output", "average.pt")
    assert os.path.getsize("average.pt") < os.path.getsize("out/checkpoint6.pt")

    fairseq(
        fairseq_cli.generate, "bin", "--path", "average.pt", "--cpu", "--results-path", ".", "--num-workers", "0",
        "--nbest", "2", "--required-batch-size-multiple", "1",
    )  # fmt: skip
    references = Path("text.de").read_text().splitlines()
    hypotheses = in_order(read_generate_output(["generate-test.txt"], nbest=2), len(references))
    ours = tokenized_bleu(hypotheses, references)
    theirs = Path("generate-test.txt").read_text().splitlines()[-1]
    assert theirs.startswith(
        f"Generate test with beam=5: BLEU4 = {ours['score']:.2f}, {ours['verbose_score'].split()[0]} (BP="
    )
    with pytest.raises(AssertionError, match=r"please reset the optimizer .* none \(averaged checkpoint\)"):
        fairseq(fairseq_cli.train, *train, "--max-epoch", "7", "--restore-file", "average.pt")
