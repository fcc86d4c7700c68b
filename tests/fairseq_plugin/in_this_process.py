"""fairseq's commands in the test's own process."""

import sys
from pathlib import Path

import composed  # noqa: F401
import fairseq_cli.preprocess
import pytest


def run(command, *arguments):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["fairseq", *map(str, arguments)])
        command.cli_main()


def preprocess(text, lines, data_bin):
    """Write the same lines as both languages' text, ``TEXT.de`` and ``TEXT.en``, and make data of all splits of it."""
    for language in "de", "en":
        Path(f"{text}.{language}").write_text("".join(lines))
    run(
        fairseq_cli.preprocess, "-s", "de", "-t", "en", "--joined-dictionary", "--destdir", data_bin,
        *("--trainpref", text, "--validpref", text, "--testpref", text),
    )  # fmt: skip


def training(folder, save_dir, *options, data="bin", validate=False):
    return (
        folder / data, "--save-dir", save_dir, "--arch", "resmlp_transformer_tiny", "--optimizer", "adagrad",
        "--lr", 0.1, "--batch-size", 8, "--max-update", 1, "--cpu", "--num-workers", 0, "--log-format", "none",
        "--no-epoch-checkpoints", *([] if validate else ["--disable-validation"]), *options,
    )  # fmt: skip
