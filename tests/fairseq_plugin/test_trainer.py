"""Trainings that diverge, that cannot begin, that are finished or resumed; ``--amp`` on a CPU."""

import os

import fairseq_cli.train
import pytest
import torch
from fairseq.tasks.fairseq_task import FairseqTask
from torch import nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint
from resmlp_mt.fairseq_plugin.uncaught import explanation


def last(folder):
    return load_checkpoint(folder / "checkpoint_last.pt")


def updates(folder):
    return last(folder)["optimizer_history"][-1]["num_updates"]


def test_a_gradient_of_nan_ends_the_training_which_can_go_on_from_the_last_checkpoint(train, tmp_path):
    train(tmp_path, "--max-update", 2)  # an epoch
    told = r"^after update 3, with learning rate 1e\+30: gradients are Nan/Inf: the training has diverged: lower --lr"
    with pytest.raises(UserError, match=told):
        train(tmp_path, "--lr", 1e30, "--reset-lr-scheduler", "--max-update", 9)
    assert updates(tmp_path) == 2
    assert os.listdir(tmp_path) == ["checkpoint_last.pt"]
    train(tmp_path, "--reset-lr-scheduler", "--max-update", 3)
    assert updates(tmp_path) == 3


@pytest.mark.parametrize(
    ("rows", "value", "validate", "message"),
    [
        (slice(1), float("inf"), False, r"weights are nan or infinite \(encoder\.layers\.0\.mixing\.mix"),
        (slice(None), 1e38, True, "the validation loss is nan"),
    ],
)
def test_a_model_that_the_last_update_spoilt_is_not_saved(train, tmp_path, monkeypatch, rows, value, validate, message):
    step = FairseqTask.optimizer_step

    @torch.no_grad()
    def spoiling(self, optimizer, model, update_num):
        step(self, optimizer, model, update_num)
        model.encoder.layers[0].mixing.mixing.weight[rows] = value

    monkeypatch.setattr(FairseqTask, "optimizer_step", spoiling)
    with pytest.raises(UserError, match=f"update 1, .*: {message}"):
        train(tmp_path, validate=validate)
    assert os.listdir(tmp_path) == []


def test_validation_on_the_training_set_takes_nothing_from_the_training(train, tmp_path):
    train(tmp_path, "--max-update", 0, "--max-epoch", 4, "--valid-subset", "valid,train", validate=True)
    assert updates(tmp_path) == 8  # an epoch has two


def test_other_embeddings_that_are_shared_are_told(train, tmp_path):
    shared = ["--share-decoder-input-output-embed"]
    for before, now, told in (
        ([], shared, r"output_projection.weight is not decoder.embed_tokens.weight, which the model shares: give the"),
        (shared, [], "the optimizer's state has other sizes: give the training's options"),
    ):
        train(tmp_path / told[:6], *before)
        with pytest.raises((UserError, ValueError)) as error:
            train(tmp_path / told[:6], "--max-update", 2, *now)
        assert told in explanation(error.value)


@pytest.mark.parametrize("arch", ["resmlp_transformer_tiny", "transformer_tiny"])
def test_a_training_that_is_done_stays_as_it_is(train, tmp_path, arch):
    train(tmp_path, "--arch", arch)
    before = (tmp_path / "checkpoint_last.pt").read_bytes()
    train(tmp_path, "--arch", arch, "--max-update", 1)
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == before
    train(tmp_path, "--arch", arch, "--max-update", 2)  # an epoch
    train(tmp_path, "--arch", arch, "--max-update", 1)
    assert updates(tmp_path) == 2


def test_a_training_that_patience_ended_stays_as_it_is_and_a_broken_one_ends_there_too(train, tmp_path):
    known = vars(fairseq_cli.train.should_stop_early)  # a new process knows nothing
    for name, epochs in ("unbroken", 9), ("unbroken", 9), ("broken", 2), ("broken", 9):
        known.clear()
        options = "--patience", 2, "--lr", 1e-30, "--max-update", 0, "--max-epoch", epochs
        train(tmp_path / name, *options, validate=True)
        assert updates(tmp_path / name) == 2 * min(epochs, 3)  # an epoch has two
    train(tmp_path / "tuned", *options, "--finetune-from-model", tmp_path / "broken/checkpoint_last.pt", validate=True)
    assert updates(tmp_path / "tuned") == 6  # it begins anew


def test_a_user_s_files_are_left_alone(train, tmp_path):
    for name in "file", "dummy":
        (tmp_path / name).write_text("mine")
    with pytest.raises((UserError, OSError), match="file"):
        train(tmp_path / "file" / "in it")
    train(tmp_path)
    assert (tmp_path / "file").read_text() == (tmp_path / "dummy").read_text() == "mine"


def test_a_training_goes_on_from_its_own_checkpoint_whatever_its_folder_is_called(train, tmp_path):
    folder = tmp_path / "exp(2) [1]"
    train(folder)
    train(folder, "--max-update", 2)
    train(folder, "--restore-file", "checkpoint_last.pt", "--max-update", 3)
    assert updates(folder) == 3
    for model, limit in (folder / "checkpoint_last.pt", 1), (tmp_path / "gone.pt", 2):  # it is needed only to begin
        train(tmp_path / "tuned", "--finetune-from-model", model, "--max-update", limit)
        assert updates(tmp_path / "tuned") == limit
    train(tmp_path / "restored", "--restore-file", folder / "checkpoint_last.pt", "--max-update", 4)
    assert updates(tmp_path / "restored") == 4
    train(tmp_path / "light", "--no-save-optimizer-state", "--max-update", 2)
    with pytest.raises(UserError, match=r"light/checkpoint_last.pt: holds no state of its optimizer: the"):
        train(tmp_path / "light", "--max-update", 3)
    with pytest.raises(UserError, match=r"--restore-file or --continue-once nowhere.pt: no such file"):
        train(tmp_path / "new", "--restore-file", "nowhere.pt")
    assert not list(tmp_path.glob("new/*.pt"))


def test_a_checkpoint_that_does_not_fit_is_one_line(train, checkpoint, tmp_path):
    own = tmp_path / "checkpoint_last.pt"
    os.link(checkpoint, own)
    for file, restored in (own, ()), (checkpoint, ("--restore-file", checkpoint)):
        with pytest.raises(UserError, match=rf"^{file}: .*\(256, 64\) in it, but \(9, 64\) .*: give the options"):
            train(tmp_path, "--decoder-ffn-embed-dim", 9, *restored)
        assert os.listdir(tmp_path) == ["checkpoint_last.pt"]


def test_dynamicconv_trains_with_the_kernels_of_its_paper_and_translates(train, generate, tmp_path):
    train(tmp_path, "--arch", "dynamicconv", "--encoder-embed-dim", 8, "--encoder-ffn-embed-dim", 8, validate=True)
    generate("--max-len-b", 3, "--results-path", tmp_path, path=tmp_path / "checkpoint_last.pt")
    assert (tmp_path / "generate-test.txt").read_text().count("\nH-") == 16
    sizes = {name: len(weight) // 8 for name, weight in last(tmp_path)["model"].items() if "conv.weight_linear" in name}
    for side, widths in ("encoder", [3, 7, 15, 31, 31, 31, 31]), ("decoder", [3, 7, 15, 31, 31, 31]):  # for 8 heads
        assert [width for name, width in sizes.items() if name.startswith(side)] == widths


# --amp

OURS = ["resmlp_transformer_tiny", "resmlp_transformer_multi30k_gated"]
CAN = "resmlp_mt.fairseq_plugin.trainer.has_bfloat16"  # whether the processor multiplies in bfloat16


@pytest.mark.parametrize("can", [True, False])
@pytest.mark.parametrize("arch", [*OURS, "transformer_tiny"])
def test_a_training_multiplies_in_bfloat16_if_it_can_and_validates_and_keeps_fp32(
    train, monkeypatch, tmp_path, arch, can
):
    products = {True: set(), False: set()}  # the types of linear layers' outputs, in training or not
    forward = nn.Linear.forward

    def seen(self, x):
        y = forward(self, x)
        products[self.training].add(y.dtype)
        return y

    monkeypatch.setattr(nn.Linear, "forward", seen)
    monkeypatch.setattr(CAN, lambda: can)
    train(tmp_path, "--arch", arch, "--optimizer", "adam", "--amp", validate=True)
    assert products == {True: {torch.bfloat16 if can else torch.float32}, False: {torch.float32}}
    state = last(tmp_path)
    kept = [*state["model"].values(), *(each["exp_avg"] for each in state["last_optimizer_state"]["state"].values())]
    assert {tensor.dtype for tensor in kept if tensor.is_floating_point()} == {torch.float32}


@pytest.mark.parametrize("arch", OURS)
def test_it_trains_as_fp32_does_but_for_rounding(train, monkeypatch, tmp_path, arch):
    monkeypatch.setattr(CAN, lambda: True)
    descent = "--arch", arch, "--optimizer", "sgd", "--max-update", 4  # with SGD the steps are the gradients
    for name, options in ("begun", ["--lr", 1e-30]), ("fp32", []), ("mixed", ["--amp"]):
        train(tmp_path / name, *descent, *options)
    begun, exact, mixed = (last(tmp_path / name)["model"] for name in ("begun", "fp32", "mixed"))
    moved = [name for name in begun if not torch.equal(exact[name], begun[name])]
    assert len(moved) > 0.8 * len(begun)
    for name in moved:
        if not name.endswith("k_proj.bias"):  # which a softmax ignores
            one, other = ((each[name] - begun[name]).flatten() for each in (exact, mixed))
            assert torch.cosine_similarity(one, other, 0) > 0.95, name
            assert not torch.equal(one, other), name
