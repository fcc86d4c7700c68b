"""The project's commands, run in the test's own process, where fairseq is imported already."""

import importlib.util
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


def in_process(name, monkeypatch):
    """A function that runs ``scripts/NAME.py`` with the arguments it is given."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    def run(*args):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, args)])
        script.main()

    return run


def printed(name, monkeypatch, capsys):
    """The same, but it returns what the command prints."""
    script = in_process(name, monkeypatch)

    def run(*args):
        capsys.readouterr()
        script(*args)
        return capsys.readouterr().out

    return run
