"""The trainer: trainings that diverge, that cannot begin, that are done, and that go on."""

import os

import fairseq_cli.train
import pytest
import torch
from fairseq.optim.fairseq_optimizer import FairseqOptimizer
from fairseq.tasks.fairseq_task import FairseqTask
from in_this_process import run, training

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint

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
    assert str(refused.value).startswith(f"after update 1, with learning rate 1e+30: gradients are Nan/Inf: {ADVICE}")
    assert os.listdir(tmp_path) == []


def test_it_can_go_on_from_the_last_checkpoint(train, tmp_path):
    train(tmp_path, "--max-update", 2)  # an epoch
    with pytest.raises(UserError, match=f"after update 3, .*: {ADVICE}"):
        train(tmp_path, "--lr", 1e30, "--reset-lr-scheduler", "--max-update", 9)
    assert updates(tmp_path) == 2
    assert os.listdir(tmp_path) == ["checkpoint_last.pt"]
    train(tmp_path, "--reset-lr-scheduler", "--max-update", 3)
    assert updates(tmp_path) == 3


def test_a_loss_scale_that_cannot_be_smaller(train, tmp_path, monkeypatch):
    def clip(*_, **__):
        raise FloatingPointError("Minimum loss scale reached (0.0001). Your loss is probably exploding. Try ...")

    monkeypatch.setattr(FairseqOptimizer, "clip_grad_norm", clip)
    with pytest.raises(UserError, match=rf"after update 0, .*: Minimum loss scale reached \(0.0001\)\. .*: {ADVICE}"):
        train(tmp_path)
    assert os.listdir(tmp_path) == []


def test_weights_that_the_last_update_spoilt_are_not_saved(train, tmp_path, after_each_update):
    after_each_update(lambda model: model.encoder.layers[0].mixing.mixing.weight[0, 0].fill_(float("inf")))
    with pytest.raises(UserError, match=r"update 1, .*: weights are nan or infinite \(encoder\.layers\.0\.mixing\.mix"):
        train(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_validation_loss_of_nan_is_not_saved(train, tmp_path, after_each_update):
    after_each_update(lambda model: [weight.fill_(1e38) for weight in model.parameters()])
    with pytest.raises(UserError, match=r"update 1, .*: the validation loss is nan: the training has diverged"):
        train(tmp_path, validate=True)
    assert os.listdir(tmp_path) == []


def test_a_training_that_is_done_stays_as_it_is(train, tmp_path):
    train(tmp_path)
    before = (tmp_path / "checkpoint_last.pt").read_bytes()
    for limit in 1, 2:  # an epoch has two updates
        train(tmp_path, "--max-update", limit)
        assert updates(tmp_path) == limit
        assert limit > 1 or (tmp_path / "checkpoint_last.pt").read_bytes() == before
    train(tmp_path, "--max-update", 1)
    assert updates(tmp_path) == 2


def test_a_folder_that_is_a_file(train, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises((UserError, OSError), match="file"):
        train(tmp_path / "file" / "in it")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_file_named_dummy_is_the_user_s(train, tmp_path):
    (tmp_path / "dummy").write_text("mine")
    train(tmp_path)
    assert (tmp_path / "dummy").read_text() == "mine"


def test_an_optimizer_is_asked_for(small, tmp_path):
    words = list(training(small, tmp_path))
    at = words.index("--optimizer")
    with pytest.raises(UserError, match="--optimizer is missing: give one"):
        run(fairseq_cli.train, *words[:at], *words[at + 2 :])


def test_an_optimizer_or_schedule_that_fairseq_refuses(train, tmp_path):
    message = "--optimizer adagrad --lr-scheduler step: refused by fairseq: assert self.lr_decay <= 1"
    with pytest.raises(UserError, match=message):
        train(tmp_path, "--lr-scheduler", "step", "--lr-decay", 2)


@pytest.mark.parametrize("mistake", [True, False])
def test_a_mistake_that_is_told_needs_no_dump(train, tmp_path, monkeypatch, mistake):
    def failing(*_, **__):
        raise UserError("told") if mistake else KeyError("a mistake in the code")

    monkeypatch.setattr(FairseqTask, "train_step", failing)
    with pytest.raises(UserError if mistake else KeyError):
        train(tmp_path)
    assert os.listdir(tmp_path) == ([] if mistake else ["crash.pt"])


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


@pytest.mark.parametrize("file", ["nowhere.pt", "."])
def test_a_training_does_not_silently_begin_anew(train, tmp_path, file):
    with pytest.raises(UserError, match=f"--restore-file {file}: no such file"):
        train(tmp_path / "out", "--restore-file", file)
    assert not list(tmp_path.rglob("*.pt"))


def test_a_training_that_has_begun_needs_no_model_to_tune_any_more(train, tmp_path):
    train(tmp_path)
    train(tmp_path, "--max-update", 2, "--finetune-from-model", tmp_path / "gone.pt")
    assert updates(tmp_path) == 2


@pytest.mark.parametrize("how", ["--restore-file", "checkpoint_last.pt"])
@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ([], "other", "its source dictionary has 16 symbols, the data-bin's has 24: give the data-bin that it was"),
        (["--decoder-ffn-embed-dim", 9], "bin", "is 256 x 64 in it, but 9 x 64 in the model: give the options of its"),
    ],
    ids=["vocabulary", "sizes"],
)
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
