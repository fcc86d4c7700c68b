"""The project's commands, run in the test's own process, where fairseq is imported already."""

import importlib
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


def in_process(name, monkeypatch):
    """A function that runs the command ``resmlp_mt.cli.NAME`` with the arguments it is given."""
    command = importlib.import_module(f"resmlp_mt.cli.{name}")

    def run(*args):
        monkeypatch.setattr(sys, "argv", [name, *map(str, args)])
        command.main()

    return run


def printed(name, monkeypatch, capsys):
    """A command that runs in this process, as ``in_process``, and returns what it prints."""
    script = in_process(name, monkeypatch)

    def run(*args):
        capsys.readouterr()
        script(*args)
        return capsys.readouterr().out

    return run
