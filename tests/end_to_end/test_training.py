"""fairseq-train and fairseq-validate."""

import re
import signal

import pytest
import torch
from fairseq_commands import USER_DIR

from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint

UPDATES = 12  # five an epoch
# With the last option, fairseq makes new batches for every epoch. Without it, newer fairseq keeps the batches of the
# epoch in which the process began, and a training that resumes in another epoch gets other batches.
RESUMABLE = (
    "--max-update", UPDATES, "--save-interval-updates", 3, "--num-workers", 2, "--share-all-embeddings",
    "--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1, "--update-epoch-batch-itr", True,
)  # fmt: skip


def test_a_tiny_model_learns_its_training_data(trained):
    folder, output = trained
    losses = [float(each) for each in re.findall(r"\| train \| .*?\bloss (\S+)", output)]
    assert losses[0] > 2 and losses[-1] < 0.3
    bleu = [float(each) for each in re.findall(r"\| bleu (\S+)", output)]
    assert bleu[-1] > 90
    assert load_checkpoint(folder / "checkpoint_best.pt")["extra_state"]["best"] == max(bleu)


def test_validate_gives_the_loss_of_the_training(fairseq, data_bin, trained):
    folder, output = trained
    done = fairseq(
        "validate", data_bin, "--user-dir", USER_DIR, "--path", folder / "checkpoint_last.pt", "--cpu",
        "--task", "translation", "--valid-subset", "train", "--log-format", "simple",
        "--batch-size", 7, "--required-batch-size-multiple", 1,
    ).succeeded()  # fmt: skip
    during = float(re.findall(r"valid on 'train' subset \| loss (\S+)", output)[-1])
    assert float(re.findall(r"\| loss (\S+)", done.output)[-1]) == pytest.approx(during, abs=0.002)


@pytest.fixture(scope="module")
def unbroken(train, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    train(folder, *RESUMABLE).succeeded()
    return load_checkpoint(folder / "checkpoint_last.pt")


@pytest.mark.parametrize(
    ("kill", "resumed_from"),
    [
        (("update", 8), "epoch 2 @ 6 updates"),  # in the middle of an epoch, two updates after a checkpoint
        (("copy", 3), "epoch 2 @ 5 updates"),  # half-way through writing checkpoint_last.pt at update 6
        (("update", 8, signal.SIGINT), "epoch 2 @ 6 updates"),  # Ctrl-C
    ],
)
def test_a_killed_training_run_again_ends_like_an_unbroken_one(train, unbroken, tmp_path, kill, resumed_from):
    killed = train(tmp_path, *RESUMABLE, kill=kill)
    assert killed.status == -(kill[2] if len(kill) > 2 else signal.SIGKILL), killed.output
    assert "Traceback" not in killed.output
    if killed.status == -signal.SIGINT:
        assert killed.last_line == "interrupted"
    done = train(tmp_path, *RESUMABLE).succeeded()
    assert re.search(rf"Loaded checkpoint .*checkpoint_last\.pt \({resumed_from}\)", done.output), done.output
    resumed = load_checkpoint(tmp_path / "checkpoint_last.pt")
    assert resumed["optimizer_history"][-1]["num_updates"] == UPDATES
    for part in "model", "last_optimizer_state":
        torch.testing.assert_close(resumed[part], unbroken[part], rtol=0, atol=0)
    assert resumed["optimizer_history"][-1] == unbroken["optimizer_history"][-1]
    assert resumed["extra_state"]["train_iterator"] == unbroken["extra_state"]["train_iterator"]
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="fairseq's --fp16 needs a GPU")
def test_fp16_trains(train, tmp_path):
    train(tmp_path, "--max-update", 3, "--fp16", "--optimizer", "adam", "--lr", 0.001).succeeded()
