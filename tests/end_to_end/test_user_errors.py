"""A user's mistakes end with one clear line, without a traceback where the plugin can prevent it."""

import shutil

from fairseq_commands import USER_DIR


def test_help_shows_every_option_of_the_model(fairseq):
    done = fairseq("train", "--help", "--user-dir", USER_DIR, "--arch", "resmlp_transformer").succeeded()
    section = done.output.split("Model-specific configuration:")[1].split("\n\n")[0]
    options = {option: words for option, *words in map(str.split, section.split("\n  --")[1:])}
    assert options.keys() >= {"layerscale-init", "dropout", "encoder-layers", "token-mixing", "mixing-heads", "norm"}
    for option, words in options.items():
        assert any(word.islower() and word.isalpha() for word in words), f"--{option} has no help"


def test_missing_data_and_options_that_do_not_go_together_are_told_in_one_line(train, data_bin, tmp_path):
    shutil.copytree(data_bin, tmp_path / "partial", ignore=shutil.ignore_patterns("train.*.bin"))
    for folder, message in ("nowhere", "nowhere"), ("partial", r"Dataset not found: train \(.*partial"):
        train(tmp_path / "checkpoints", data=tmp_path / folder).check_refused(message)
    train(tmp_path, "--decoder-attention-heads", 3).check_refused("64 is not a multiple of --decoder-attention-heads 3")


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
