"""fairseq's commands in the test's own process, and a model of one update with its data-bin."""

import fairseq_cli.generate
import fairseq_cli.interactive
import fairseq_cli.train
import pytest
from fairseq.tasks.translation import TranslationConfig
from in_this_process import preprocess, run, training
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
        preprocess(folder / name, [f"a{i % words} b{i % 3} c\n" for i in range(16)], folder / name)
    run(fairseq_cli.train, *training(folder, folder / "trained"))


@pytest.fixture(scope="session")
def checkpoint(small):
    return small / "trained" / "checkpoint_last.pt"


@pytest.fixture
def generate(small, checkpoint):
    return lambda *options, data=small / "bin", path=checkpoint, command=fairseq_cli.generate: run(
        command, data, "--path", path, "--cpu", "--num-workers", 0, "--batch-size", 8, *options
    )


@pytest.fixture
def task(small):
    """A function that returns the translation task with one of the two data-bins."""

    def task_of(name="bin"):
        return Task.setup_task(TranslationConfig(data=str(small / name), source_lang="de", target_lang="en"))

    return task_of
