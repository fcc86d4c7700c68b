"""The trainer: trainings that diverge, that cannot begin, that are done, that go on; ``--amp`` on a CPU."""

import os

import fairseq_cli.train
import pytest
import torch
from fairseq.tasks.fairseq_task import FairseqTask
from in_this_process import run, training
from torch import nn

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


def test_a_gradient_of_nan_ends_the_training_which_can_go_on_from_the_last_checkpoint(train, tmp_path):
    train(tmp_path, "--max-update", 2)  # an epoch
    with pytest.raises(UserError) as refused:
        train(tmp_path, "--lr", 1e30, "--reset-lr-scheduler", "--max-update", 9)
    assert str(refused.value).startswith(f"after update 3, with learning rate 1e+30: gradients are Nan/Inf: {ADVICE}")
    assert updates(tmp_path) == 2
    assert os.listdir(tmp_path) == ["checkpoint_last.pt"]
    train(tmp_path, "--reset-lr-scheduler", "--max-update", 3)
    assert updates(tmp_path) == 3


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


def test_a_user_s_files_are_left_alone(train, tmp_path):
    for name in "file", "dummy":
        (tmp_path / name).write_text("mine")
    with pytest.raises((UserError, OSError), match="file"):
        train(tmp_path / "file" / "in it")
    train(tmp_path)
    assert (tmp_path / "file").read_text() == (tmp_path / "dummy").read_text() == "mine"


def test_an_optimizer_is_asked_for_and_told_if_fairseq_refuses_it(small, train, tmp_path):
    words = list(training(small, tmp_path))
    at = words.index("--optimizer")
    with pytest.raises(UserError, match="--optimizer is missing: give one"):
        run(fairseq_cli.train, *words[:at], *words[at + 2 :])
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
    for model, limit in (folder / "checkpoint_last.pt", 1), (tmp_path / "gone.pt", 2):  # needed to begin alone
        train(tmp_path / "tuned", "--finetune-from-model", model, "--max-update", limit)
        assert updates(tmp_path / "tuned") == limit
    train(tmp_path / "restored", "--restore-file", folder / "checkpoint_last.pt", "--max-update", 4)
    assert updates(tmp_path / "restored") == 4


@pytest.mark.parametrize("file", ["nowhere.pt", "."])
def test_a_training_does_not_silently_begin_anew(train, tmp_path, file):
    with pytest.raises(UserError, match=f"--restore-file {file}: no such file"):
        train(tmp_path / "out", "--restore-file", file)
    assert not list(tmp_path.rglob("*.pt"))


@pytest.mark.parametrize("how", ["--restore-file", "checkpoint_last.pt"])
@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ([], "other", "its source dictionary has 16 symbols, the data-bin's has 24: give the data-bin that it was"),
        (["--decoder-ffn-embed-dim", 9], "bin", r"is \(256, 64\) in it, but \(9, 64\) in the model: give the options"),
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


# --amp

ADAM = "--optimizer", "adam", "--lr", 1e-3


@pytest.fixture
def products(monkeypatch):
    """The types of what linear layers compute, by whether the model is in training."""
    found = {True: set(), False: set()}
    forward = nn.Linear.forward

    def seen(self, x):
        y = forward(self, x)
        found[self.training].add(y.dtype)
        return y

    monkeypatch.setattr(nn.Linear, "forward", seen)
    return found


def weights(folder):
    return load_checkpoint(folder / "checkpoint_last.pt")["model"]


@pytest.mark.parametrize("arch", ["resmlp_transformer_tiny", "resmlp_transformer_multi30k_gated", "transformer_tiny"])
def test_a_training_multiplies_in_bfloat16_and_validates_and_keeps_fp32(train, products, tmp_path, recwarn, arch):
    train(tmp_path / "fp32", "--arch", arch, *ADAM)
    assert products.pop(True) == {torch.float32}
    products[True] = set()
    train(tmp_path, "--arch", arch, *ADAM, "--amp", validate=True)
    assert products == {True: {torch.bfloat16}, False: {torch.float32}}
    state = load_checkpoint(tmp_path / "checkpoint_last.pt")
    assert {tensor.dtype for tensor in state["model"].values() if tensor.is_floating_point()} == {torch.float32}
    moments = [each["exp_avg"] for each in state["last_optimizer_state"]["state"].values()]
    assert {tensor.dtype for tensor in moments} == {torch.float32}
    assert not [each for each in recwarn if "Disabling" in str(each.message)]


@pytest.mark.parametrize("arch", ["resmlp_transformer_tiny", "resmlp_transformer_multi30k_gated"])
def test_it_trains_as_fp32_does_but_for_rounding(train, tmp_path, arch):
    descent = "--arch", arch, "--optimizer", "sgd", "--max-update", 4  # whose steps are the gradients
    train(tmp_path / "begun", *descent, "--lr", 1e-30)
    for name, options in ("fp32", ()), ("mixed", ("--amp",)):
        train(tmp_path / name, *descent, "--lr", 0.1, *options)
    begun, exact, mixed = (weights(tmp_path / name) for name in ("begun", "fp32", "mixed"))
    for name, first in begun.items():
        if not name.endswith("k_proj.bias") and not torch.equal(exact[name], first):  # a softmax takes no bias of keys
            one, other = (exact[name] - first).flatten(), (mixed[name] - first).flatten()
            assert torch.cosine_similarity(one, other, 0) > 0.95, name
            assert not torch.equal(one, other), name


def test_broken_off_it_goes_on_to_the_same_weights(train, tmp_path):
    options = *ADAM, "--amp", "--update-epoch-batch-itr", True, "--max-update"
    train(tmp_path / "unbroken", *options, 4)
    for updates in 2, 4:
        train(tmp_path / "broken", *options, updates)
    for name, tensor in weights(tmp_path / "unbroken").items():
        assert torch.equal(tensor, weights(tmp_path / "broken")[name]), name


def test_a_processor_without_bfloat16_is_told(train, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    train(tmp_path, *ADAM, "--amp")
    assert "this processor has no bfloat16 arithmetic: it will be slower than fp32" in caplog.text
