"""fairseq's commands in the test's own process."""

import sys
from pathlib import Path

import composed  # noqa: F401
import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(command, *arguments):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["fairseq", *map(str, arguments)])
        command.cli_main()


def training(folder, save_dir, *options, data="bin", validate=False):
    return (
        folder / data, "--save-dir", save_dir, "--arch", "resmlp_transformer_tiny", "--optimizer", "adagrad",
        "--lr", 0.1, "--batch-size", 8, "--max-update", 1, "--cpu", "--num-workers", 0, "--log-format", "none",
        "--no-epoch-checkpoints", *([] if validate else ["--disable-validation"]), *options,
    )  # fmt: skip
