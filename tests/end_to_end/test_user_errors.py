"""What a user's mistakes come to: one clear line, no traceback where the plugin has a say."""

import os
import shutil
import signal
import subprocess

import pytest
import torch
from fairseq_commands import USER_DIR

from resmlp_mt import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--decoder-attention-heads", 3], "--decoder-embed-dim 64 is not a multiple of --decoder-attention-heads 3"),
        (["--encoder-attention-heads", 2], "unrecognized arguments: --encoder-attention-heads 2"),
    ],
)
def test_options_that_do_not_go_together_end_in_one_line(train, tmp_path, options, message):
    train(tmp_path / "checkpoints", *options).check_refused(message)
    assert not list(tmp_path.rglob("*.pt*"))


def test_help_shows_every_option_of_the_model(fairseq):
    done = fairseq("train", "--help", "--user-dir", USER_DIR, "--arch", "resmlp_transformer")
    assert done.status == 0
    section = done.output.split("Model-specific configuration:")[1].split("\n\n")[0]
    entries = [" ".join(entry.split()) for entry in section.split("\n  --")[1:]]
    options = {entry.split()[0]: entry for entry in entries}
    assert options.keys() >= {"layerscale-init", "dropout", "encoder-layers", "token-mixing", "mixing-heads", "norm"}
    for option, entry in options.items():
        words = entry.split()[1:]
        assert any(word.islower() and word.isalpha() for word in words), f"--{option} has no help"


def make_broken(kind, good, folder):
    """A checkpoint with something wrong with it."""
    path = folder / f"{kind}.pt"
    if kind == "truncated":
        path.write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    elif kind == "smuggling":
        state = load_checkpoint(good)
        state["extra_state"]["surprise"] = Surprise()
        torch.save(state, path)
    return path


class Surprise:
    """Pickles as a call."""

    def __reduce__(self):
        return os.mkdir, ("smuggled",)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", r"Model file not found: .*missing\.pt"),
        ("truncated", r"truncated\.pt: not loaded: truncated, or not a checkpoint"),
        ("smuggling", r"smuggling\.pt: not loaded: it holds (posix|os)\.mkdir"),
    ],
)
def test_a_broken_checkpoint_is_refused_by_name(fairseq, data_bin, trained, tmp_path, kind, message):
    path = make_broken(kind, trained[0] / "checkpoint_best.pt", tmp_path)
    fairseq("generate", data_bin, "--user-dir", USER_DIR, "--path", path, "--cpu", cwd=tmp_path).check_refused(message)
    with pytest.raises(Exception, match=message):
        ResMLPTransformerModel.from_pretrained(str(tmp_path), path.name, str(data_bin))
    assert not (tmp_path / "smuggled").exists()


def test_a_training_does_not_go_on_from_a_broken_checkpoint(train, trained, tmp_path):
    broken = make_broken("truncated", trained[0] / "checkpoint_best.pt", tmp_path)
    broken.rename(tmp_path / "checkpoint_last.pt")
    train(tmp_path, "--max-update", 1).check_refused(r"checkpoint_last\.pt: not loaded: truncated")
    assert os.listdir(tmp_path) == ["checkpoint_last.pt"]


def test_missing_data_is_named_in_one_line(train, data_bin, tmp_path):
    shutil.copytree(data_bin, tmp_path / "partial", ignore=shutil.ignore_patterns("train.*.bin"))
    for folder, message in ("nowhere", "nowhere"), ("partial", r"Dataset not found: train \(.*partial"):
        train(tmp_path / "checkpoints", data=tmp_path / folder).check_refused(message)


def test_a_sentence_too_long_for_the_model_ends_generation_in_one_line(fairseq, data_bin, trained):
    path = trained[0] / "checkpoint_best.pt"
    command = ("--user-dir", USER_DIR, "--path", path, "--cpu", "--gen-subset", "valid", "--max-source-positions", 3)
    done = fairseq("generate", data_bin, *command)
    done.check_refused(r"sentence \d+ has .* positions .*\(3, 64\): raise --max-source-positions")


def test_a_reader_that_is_gone_ends_a_command_without_a_word(fairseq, data_bin, trained, train, tmp_path):
    common = ("--user-dir", USER_DIR, "--path", trained[0] / "checkpoint_best.pt", "--cpu", "--num-workers", 0)
    lines = tmp_path / "lines"
    lines.write_text("a\n")
    for done in (
        train(tmp_path / "training", "--max-epoch", 99, reader_gone=True),
        fairseq("interactive", data_bin, *common, stdin=str(lines), reader_gone=True),
    ):
        assert done.status == 1, done.output
        assert "Traceback" not in done.output and "BrokenPipe" not in done.output


def test_ctrl_c_while_an_object_is_deleted_is_not_dropped(commands_on_path, tmp_path):
    (tmp_path / "deleting.py").write_text(DELETING)
    command = ["python", tmp_path / "deleting.py"]
    done = subprocess.run(command, env=commands_on_path(), capture_output=True, text=True)
    assert done.returncode == -signal.SIGINT, done.stderr
    assert done.stderr.rstrip().endswith("interrupted") and "Traceback" not in done.stderr


DELETING = """
import sys
from fairseq import options
import fairseq_cli.validate
import resmlp_mt.fairseq_plugin

class Deleted:
    def __del__(self):
        raise KeyboardInterrupt

sys.argv = ["fairseq-validate", "data-bin", "--path", "x.pt"]
options.parse_args_and_arch(options.get_validation_parser())
Deleted()
"""
