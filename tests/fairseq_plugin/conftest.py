"""fairseq's commands in the test's own process, and a model of one update with its data-bin."""

import sys

import fairseq_cli.generate
import fairseq_cli.interactive
import fairseq_cli.preprocess
import fairseq_cli.train
import pytest
from fairseq import options
from fairseq.tasks.translation import TranslationConfig
from in_this_process import run, training
from shared import made_once

from resmlp_mt.fairseq_plugin import install, raw_text
from resmlp_mt.fairseq_plugin.task import Task

install()  # another test may have imported the plugin before fairseq's commands


@pytest.fixture
def train(small):
    def training_of(save_dir, *options, **more):
        run(fairseq_cli.train, *training(small, save_dir, *options, **more))

    return training_of


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A folder with ``bin``, ``other`` (of another vocabulary) and ``trained/checkpoint_last.pt``."""
    return made_once(tmp_path_factory, "small", make_small)


def make_small(folder):
    for name, words in ("bin", 5), ("other", 9):
        for language in "de", "en":
            lines = [f"a{i % words} b{i % 3} c" for i in range(16)]
            (folder / f"{name}.{language}").write_text("\n".join(lines) + "\n")
        prefix = folder / name
        run(
            fairseq_cli.preprocess, "-s", "de", "-t", "en", "--joined-dictionary", "--destdir", prefix,
            *("--trainpref", prefix, "--validpref", prefix, "--testpref", prefix),
        )  # fmt: skip
    run(fairseq_cli.train, *training(folder, folder / "trained"))


@pytest.fixture(scope="session")
def checkpoint(small):
    return small / "trained" / "checkpoint_last.pt"


@pytest.fixture
def task(small):
    """Gives translation with one of the two data-bins."""

    def task_of(name="bin"):
        config = TranslationConfig()
        config.data, config.source_lang, config.target_lang = str(small / name), "de", "en"
        return Task.setup_task(config)

    return task_of


@pytest.fixture
def data(tmp_path):
    """A data-bin as far as options concern it."""
    for name in "dict.en.txt", "dict.de.txt", "train.en-de.en.bin", raw_text.RECORD:
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def parse(monkeypatch):
    """The options of one of fairseq's commands, as it parses them; later ones win."""

    def parsed(command, data, *arguments):
        training = ["--arch", "resmlp_transformer_tiny", "--optimizer", "adam", "--max-tokens", "100"]
        words = training if command == "training" else ["--path", "x.pt"]
        monkeypatch.setattr(sys, "argv", ["fairseq", str(data), *words, *map(str, arguments)])
        return options.parse_args_and_arch(getattr(options, f"get_{command}_parser")())

    return parsed
