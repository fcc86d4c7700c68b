"""What fairseq-train begins with: resumed, restored and fine-tuned trainings."""

import os

import pytest
import torch

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints.loading import load_checkpoint


def updates(folder):
    return load_checkpoint(folder / "checkpoint_last.pt")["optimizer_history"][-1]["num_updates"]


def test_a_training_goes_on_from_its_own_checkpoint_whatever_its_folder_is_called(train, tmp_path):
    folder = tmp_path / "exp(2) [1]"
    train(folder)
    train(folder, "--max-update", 2)
    assert updates(folder) == 2
    train(folder, "--restore-file", "checkpoint_last.pt", "--max-update", 3)
    assert updates(folder) == 3
    train(tmp_path / "tuned", "--finetune-from-model", folder / "checkpoint_last.pt")
    assert updates(tmp_path / "tuned") == 1
    train(tmp_path / "restored", "--restore-file", folder / "checkpoint_last.pt", "--max-update", 4)
    assert updates(tmp_path / "restored") == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--restore-file", "nowhere.pt"], "--restore-file nowhere.pt: no such file"),
        (["--restore-file", "."], "--restore-file .: no such file"),
        (["--finetune-from-model", "nowhere.pt"], "--finetune-from-model nowhere.pt: no such file"),
        (["--finetune-from-model", "a.pt", "--reset-optimizer"], "--finetune-from-model resets all"),
        (["--finetune-from-model", "a.pt", "--restore-file", "b.pt"], "give one of them"),
        (["--optimizer-overrides", "[1]"], r"--optimizer-overrides \[1\]: give a dictionary"),
    ],
)
def test_a_training_does_not_silently_begin_anew(train, tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        train(tmp_path / "out", *options)
    assert not list(tmp_path.rglob("*.pt"))


def test_a_training_that_has_begun_needs_no_model_to_tune_any_more(train, tmp_path):
    train(tmp_path)
    train(tmp_path, "--max-update", 2, "--finetune-from-model", tmp_path / "gone.pt")
    assert updates(tmp_path) == 2


@pytest.mark.parametrize("how", ["--restore-file", "--finetune-from-model", "checkpoint_last.pt"])
@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ([], "other", "its source dictionary has 16 symbols, the data-bin's has 24: give the data-bin that it was"),
        (
            ["--encoder-layers", 3, "--decoder-ffn-embed-dim", 9], "bin",
            "is 256 x 64 in it, but 9 x 64 in the model; it was trained with --encoder-layers 2 "
            "--decoder-ffn-embed-dim 256, this is --encoder-layers 3 --decoder-ffn-embed-dim 9: give its options, "
            "or another --save-dir",
        ),
        (["--arch", "mixer_transformer"], "bin", "trained with --arch resmlp_transformer_tiny .* this is --arch mixer"),
        (["--share-all-embeddings", "--encoder-layers", 1], "bin", "it has the parameter encoder.layers.1.* lacks"),
    ],
    ids=["vocabulary", "sizes", "architecture", "fewer"],
)  # fmt: skip
def test_a_checkpoint_of_another_model_is_one_line(train, checkpoint, tmp_path, how, options, data, message):
    if how == "checkpoint_last.pt":
        os.link(checkpoint, tmp_path / how)
        file = tmp_path / how
    else:
        file, options = checkpoint, [*options, how, checkpoint]
    with pytest.raises(UserError, match=f"^{file}: .*{message}") as error:
        train(tmp_path, *options, data=data)
    assert "\n" not in str(error.value)
    assert set(os.listdir(tmp_path)) <= {"checkpoint_last.pt"}


def test_a_training_that_diverged_is_not_resumed(train, checkpoint, tmp_path):
    state = load_checkpoint(checkpoint)
    state["model"]["encoder.layer_norm.alpha"] *= float("nan")
    torch.save(state, tmp_path / "checkpoint_last.pt")
    with pytest.raises(UserError, match=r"checkpoint_last.pt: encoder.layer_norm.alpha is not finite"):
        train(tmp_path)


def test_another_optimizer_is_one_line(train, checkpoint, tmp_path):
    with pytest.raises(UserError, match=r"Optimizer does not match; please reset .*: begin with its parameters alone"):
        train(tmp_path, "--optimizer", "adam", "--restore-file", checkpoint)
    train(tmp_path, "--optimizer", "adam", "--restore-file", checkpoint, "--reset-optimizer", "--max-update", 2)


@pytest.mark.parametrize("part", ["optimizer_history", "last_optimizer_state", "extra_state"])
def test_a_state_that_no_training_has_is_one_line(train, checkpoint, tmp_path, part):
    wrong = {"optimizer_history": [{}], "last_optimizer_state": {"state": 1}, "extra_state": {"train_iterator": {}}}
    torch.save({**load_checkpoint(checkpoint), part: wrong[part]}, tmp_path / "checkpoint_last.pt")
    with pytest.raises(UserError, match=r"checkpoint_last.pt: .*") as error:
        train(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", [torch.ones(3), torch.ones(1), "text", [1.0]], ids=lambda wrong: str(wrong)[:9])
def test_an_optimizer_s_state_of_another_shape_is_one_line(train, checkpoint, tmp_path, wrong):
    state = load_checkpoint(checkpoint)
    state["last_optimizer_state"]["state"][0]["sum"] = wrong
    torch.save(state, tmp_path / "checkpoint_last.pt")
    with pytest.raises(UserError, match=r"checkpoint_last.pt: .*sum of its optimizer is not of its parameter's shape"):
        train(tmp_path)


@pytest.mark.parametrize(
    ("name", "meters", "message"),
    [
        ("default", [], "no time of the training"),
        ("train", [(10, "loss", "AverageMeter", {"val": "x", "sum": "x", "count": 1})], "TypeError"),
        ("train", [(10, "loss", "AverageMeter", {"val": 1, "sum": torch.ones(9), "count": 1})], "loss is tensor"),
        ("train", [(10, "loss", "AverageMeter", {"val": 1, "sum": 10**400, "count": 1})], "OverflowError"),
    ],
)
def test_meters_that_are_none_are_one_line(train, tmp_path, name, meters, message):
    train(tmp_path, "--save-interval-updates", 1, "--batch-size", 4)  # in the middle of an epoch, whose meters count
    state = load_checkpoint(tmp_path / "checkpoint_last.pt")
    state["extra_state"]["metrics"][name] = meters
    torch.save(state, tmp_path / "checkpoint_last.pt")
    with pytest.raises(UserError, match=rf"checkpoint_last\.pt: its state is broken, .*{message}"):
        train(tmp_path, "--max-update", 2, "--batch-size", 4)


def test_a_scheduler_s_best_loss_that_is_none_is_one_line(train, tmp_path):
    options = ["--lr-scheduler", "inverse_sqrt", "--warmup-updates", 4]
    train(tmp_path, *options)
    state = load_checkpoint(tmp_path / "checkpoint_last.pt")
    state["optimizer_history"][-1]["lr_scheduler_state"]["best"] = "x"
    torch.save(state, tmp_path / "checkpoint_last.pt")
    with pytest.raises(UserError, match=r"its state is broken, .*the scheduler's best loss is 'x'"):
        train(tmp_path, *options, "--max-update", 2)


def test_a_data_bin_with_fewer_sentences_is_one_line(train, small, tmp_path):
    train(tmp_path, "--save-interval-updates", 1, "--batch-size", 2)
    with pytest.raises(UserError, match=r"more batches an epoch than this data-bin .*, or --reset-dataloader"):
        train(tmp_path, "--max-update", 2, "--batch-size", 16)
