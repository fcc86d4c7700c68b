"""fairseq's commands in the test's own process, and a model of one update with its data-bin."""

from pathlib import Path

import fairseq_cli.generate
import fairseq_cli.interactive
import fairseq_cli.preprocess
import fairseq_cli.train
import pytest
from fairseq.tasks.translation import TranslationConfig
from in_this_process import run, training
from shared import made_once

from resmlp_mt.fairseq_plugin import install
from resmlp_mt.fairseq_plugin.task import Task

install()  # another test may have imported the plugin before fairseq's commands


@pytest.fixture
def train(small):
    return lambda save_dir, *options, **more: run(fairseq_cli.train, *training(small, save_dir, *options, **more))


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A folder with ``bin``, ``other`` (of another vocabulary) and ``trained/checkpoint_last.pt``."""
    return made_once(tmp_path_factory, "small", make_small)


def make_small(folder):
    for name, words in ("bin", 5), ("other", 9):
        prefix, lines = folder / name, [f"a{i % words} b{i % 3} c\n" for i in range(16)]
        for language in "de", "en":
            Path(f"{prefix}.{language}").write_text("".join(lines))
        run(
            fairseq_cli.preprocess, "-s", "de", "-t", "en", "--joined-dictionary", "--destdir", prefix,
            *("--trainpref", prefix, "--validpref", prefix, "--testpref", prefix),
        )  # fmt: skip
    run(fairseq_cli.train, *training(folder, folder / "trained"))


@pytest.fixture(scope="session")
def checkpoint(small):
    return small / "trained" / "checkpoint_last.pt"


@pytest.fixture
def generate(small, checkpoint):
    def translation(*options, data=small / "bin", path=checkpoint, command=fairseq_cli.generate):
        run(command, data, "--path", path, "--cpu", "--num-workers", 0, "--batch-size", 8, *options)

    return translation


@pytest.fixture
def task(small):
    """A function that returns the translation task with one of the two data-bins."""

    def task_of(name="bin"):
        config = TranslationConfig()
        config.data, config.source_lang, config.target_lang = str(small / name), "de", "en"
        return Task.setup_task(config)

    return task_of
