"""The project's commands, run in the test's own process, where fairseq is imported already."""

import importlib.util
import sys
from pathlib import Path

import pytest

from resmlp_mt.cli import run

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


def in_process(name, monkeypatch):
    """A function that runs a command, such as ``plot-training``, with the arguments it is given."""

    def call(*args):
        monkeypatch.setattr(sys, "argv", [name, *map(str, args)])
        run(name)

    return call


def printed(name, monkeypatch, capsys):
    """A command that runs in this process, as ``in_process``, and returns what it prints."""
    script = in_process(name, monkeypatch)

    def call(*args):
        capsys.readouterr()
        script(*args)
        return capsys.readouterr().out

    return call


def printed_by(name):
    """A fixture, ``printed`` of a command."""
    return pytest.fixture(lambda monkeypatch, capsys: printed(name, monkeypatch, capsys))


def loaded(example):
    """The module that a file of the examples is."""
    spec = importlib.util.spec_from_file_location(Path(example).stem, SCRIPTS.parent / "examples" / example)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def options_of(words):
    """By option of a command line, its value, or "" where it has none; the last one of a kind counts."""
    pairs = zip(words, [*words[1:], "--"], strict=True)
    return {word: "" if value.startswith("--") else value for word, value in pairs if word.startswith("--")}
