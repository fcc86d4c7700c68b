"""A user's mistakes end with one clear line, without a traceback where the plugin can prevent it."""

import os

import pytest
import torch
from fairseq_commands import USER_DIR
from fairseq_plugin.crafted import Call

from resmlp_mt import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint
from resmlp_mt.fairseq_plugin.options import ALL
from resmlp_mt.nn.config import spelled


def test_help_shows_every_option_of_the_model(fairseq):
    done = fairseq("train", "--help", "--user-dir", USER_DIR, "--arch", "resmlp_transformer").succeeded()
    section = done.output.split("Model-specific configuration:")[1].split("\n\n")[0]
    options = {option: words for option, *words in map(str.split, section.split("\n  --")[1:])}
    assert options.keys() >= {spelled(name)[2:] for name in ALL}
    assert not options.keys() & {"encoder-normalize-before", "layernorm-embedding", "encoder-attention-heads"}
    for option, words in options.items():
        assert any(word.islower() and word.isalpha() for word in words), f"--{option} has no help"


def test_a_broken_checkpoint_is_refused_by_name(fairseq, data_bin, trained, train, tmp_path):
    good = trained[0] / "checkpoint_best.pt"
    (tmp_path / "checkpoint_last.pt").write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    state = load_checkpoint(good)
    state["extra_state"]["surprise"] = Call(os.mkdir, "smuggled")
    torch.save(state, tmp_path / "smuggling.pt")
    for name, message in (
        ("missing.pt", r"Model file not found: .*missing\.pt"),
        ("checkpoint_last.pt", r"checkpoint_last\.pt: not loaded: truncated, or not a checkpoint"),
        ("smuggling.pt", r"smuggling\.pt: not loaded: it holds (posix|os)\.mkdir"),
    ):
        command = "--user-dir", USER_DIR, "--path", tmp_path / name, "--cpu"
        fairseq("generate", data_bin, *command, cwd=tmp_path).check_refused(message)
        with pytest.raises(Exception, match=message):
            ResMLPTransformerModel.from_pretrained(str(tmp_path), name, str(data_bin))
    train(tmp_path, "--max-update", 1).check_refused(r"checkpoint_last\.pt: not loaded: truncated")
    assert sorted(os.listdir(tmp_path)) == ["checkpoint_last.pt", "smuggling.pt"]


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
