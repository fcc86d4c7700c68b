"""Trainings whose numbers are nan or infinite, that cannot begin, or that are done."""

import os

import pytest
import torch
from fairseq.optim.fairseq_optimizer import FairseqOptimizer
from fairseq.tasks.fairseq_task import FairseqTask

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints.loading import load_checkpoint

ADVICE = "the training has diverged: lower --lr or --clip-norm or raise --warmup-updates, and run it again"


@pytest.fixture
def after_each_update(monkeypatch):
    """Change the model behind fairseq's back."""

    def install(change):
        step = FairseqTask.optimizer_step

        def changing(self, optimizer, model, update_num):
            step(self, optimizer, model, update_num)
            with torch.no_grad():
                change(model)

        monkeypatch.setattr(FairseqTask, "optimizer_step", changing)

    return install


def updates(folder):
    return load_checkpoint(folder / "checkpoint_last.pt")["optimizer_history"][-1]["num_updates"]


def test_a_gradient_of_nan_ends_the_training_and_leaves_no_crash_pt(train, tmp_path):
    with pytest.raises(UserError) as refused:
        train(tmp_path, "--lr", 1e30, "--max-update", 9)
    assert str(refused.value) == f"update 2 with learning rate 1e+30: the gradient's norm is nan: {ADVICE}"
    assert os.listdir(tmp_path) == []


def test_it_can_go_on_from_the_last_checkpoint(train, tmp_path):
    train(tmp_path, "--max-update", 2)  # an epoch
    with pytest.raises(UserError, match=f"update 4 .*: {ADVICE}; it goes on from .*/checkpoint_last.pt, or"):
        train(tmp_path, "--lr", 1e30, "--reset-lr-scheduler", "--max-update", 9)
    assert updates(tmp_path) == 2
    assert os.listdir(tmp_path) == ["checkpoint_last.pt"]
    train(tmp_path, "--reset-lr-scheduler", "--max-update", 3)
    assert updates(tmp_path) == 3


def test_a_loss_scale_that_cannot_be_smaller(train, tmp_path, monkeypatch):
    def clip(*_, **__):
        raise FloatingPointError("Minimum loss scale reached (0.0001). Your loss is probably exploding. Try ...")

    monkeypatch.setattr(FairseqOptimizer, "clip_grad_norm", clip)
    with pytest.raises(UserError, match=rf"update 1 .*: Minimum loss scale reached \(0.0001\)\. .*: {ADVICE}"):
        train(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("validate", [False, True])
def test_weights_that_the_last_update_spoilt_are_not_saved(train, tmp_path, after_each_update, validate):
    after_each_update(lambda model: model.encoder.layers[0].mixing.mixing.weight[0, 0].fill_(float("inf")))
    with pytest.raises(UserError, match=r"update 1 .*: weights are nan or infinite \(encoder\.layers\.0\.mixing\.mix"):
        train(tmp_path, validate=validate)
    assert os.listdir(tmp_path) == []


def test_a_validation_loss_of_nan_is_not_saved(train, tmp_path, after_each_update):
    after_each_update(lambda model: [weight.fill_(1e38) for weight in model.parameters()])
    with pytest.raises(UserError, match=r"update 1 .*: the validation loss is nan: the training has diverged"):
        train(tmp_path, validate=True)
    assert os.listdir(tmp_path) == []


def test_scores_that_are_no_numbers_are_told(train, tmp_path, after_each_update):
    after_each_update(lambda model: [weight.fill_(1e38) for weight in model.parameters()])
    with pytest.raises(UserError, match="no translation was found: the model's scores are nan or infinite"):
        train(tmp_path, "--eval-bleu", validate=True)


def test_a_training_that_is_done_stays_as_it_is(train, tmp_path):
    train(tmp_path)
    before = (tmp_path / "checkpoint_last.pt").read_bytes()
    for limit in 1, 2:  # an epoch has two updates
        train(tmp_path, "--max-update", limit)
        assert updates(tmp_path) == limit
        assert limit > 1 or (tmp_path / "checkpoint_last.pt").read_bytes() == before
    train(tmp_path, "--max-update", 1)
    assert updates(tmp_path) == 2


def test_a_file_named_dummy_is_the_user_s(train, tmp_path):
    (tmp_path / "dummy").write_text("mine")
    train(tmp_path)
    assert (tmp_path / "dummy").read_text() == "mine"


@pytest.mark.parametrize("folder", ["file", "file/in it", "/proc/nothing/here"])
def test_a_folder_that_cannot_be_written(train, tmp_path, folder):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=rf"--save-dir .*{folder}: cannot be written \(.*\): choose another folder"):
        train(tmp_path / folder)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lr-scheduler", "reduce_lr_on_plateau", "--lr", "0.1,0.2"], "Cannot use a fixed learning rate schedule"),
        (["--lr-scheduler", "tri_stage"], "please specify steps or phase_ratio"),
        (["--lr-scheduler", "triangular", "--max-lr", 0.01], "max_lr must be more than lr"),
        (["--lr-scheduler", "step", "--lr-decay", 2], "assert self.lr_decay <= 1"),  # says nothing
        (["--optimizer", "adam", "--fp16-adam-stats"], "--fp16-adam-stats is only supported"),
    ],
)
def test_an_optimizer_or_schedule_that_fairseq_refuses(train, tmp_path, options, message):
    with pytest.raises(UserError, match=f"--optimizer ada.* --lr-scheduler .*: refused by fairseq: .*{message}"):
        train(tmp_path, *options)


@pytest.mark.parametrize("mistake", [True, False])
def test_a_mistake_that_is_told_needs_no_dump(train, tmp_path, monkeypatch, mistake):
    def failing(*_, **__):
        raise UserError("told") if mistake else KeyError("a mistake in the code")

    monkeypatch.setattr(FairseqTask, "train_step", failing)
    with pytest.raises(UserError if mistake else KeyError):
        train(tmp_path)
    assert os.listdir(tmp_path) == ([] if mistake else ["crash.pt"])
