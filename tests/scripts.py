"""The project's commands, run in the test's own process, where fairseq is imported already."""

import contextlib
import importlib.util
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from resmlp_mt.cli import run

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "scripts"


def new_process(*arguments):
    """Run Python with these arguments in a new process; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_process(name, monkeypatch):
    """Return a function that runs a command, such as ``plot-training``, with the arguments it is given."""

    def call(*args):
        monkeypatch.setattr(sys, "argv", [name, *map(str, args)])
        run(name)

    return call


def printed(name, monkeypatch, capsys):
    """Return a function that runs a command as ``in_process`` does, and returns what it prints."""
    script = in_process(name, monkeypatch)

    def call(*args):
        capsys.readouterr()
        script(*args)
        return capsys.readouterr().out

    return call


def printed_by(name):
    """Return a fixture: ``printed`` for this command."""
    return pytest.fixture(lambda monkeypatch, capsys: printed(name, monkeypatch, capsys))


@contextlib.contextmanager
def small_files(size):
    """Let files of this process have at most so many bytes, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def loaded(example):
    """Import a file of the examples as a module."""
    spec = importlib.util.spec_from_file_location(Path(example).stem, ROOT / "examples" / example)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def stub(path, body):
    """Write a shell script, which stands in for a command of this name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)
    return path


def options_of(words):
    """Return the value of each option of a command line, or "" if it has none; of equal options the last one counts."""
    pairs = zip(words, [*words[1:], "--"], strict=True)
    return {word: "" if value.startswith("--") else value for word, value in pairs if word.startswith("--")}
