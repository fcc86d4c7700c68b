"""What every command has in common."""

import logging
import re
import subprocess
import sys

import pytest

from resmlp_mt.cli import COMMANDS, main
from scripts import in_process

NAMES = list(COMMANDS)


@pytest.mark.parametrize("name", NAMES)
def test_help_tells_the_options(name, monkeypatch, capsys):
    with pytest.raises(SystemExit) as end:
        in_process(name, monkeypatch)("--help")
    assert end.value.code == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("usage: ") and "--help" in shown.out
    assert re.search(r"\nexamples?:\n(  .*\n)*  resmlp-mt ", shown.out)
    assert "Traceback" not in shown.err


def test_help_needs_no_torch():
    """One process asks every command for its options; what a command's work needs is imported after that."""
    ask = """
import sys
from resmlp_mt.cli import parser_of
for name in sys.argv[1:]:
    parser_of(name)
print(*{"torch", "fairseq", "transformers", "matplotlib", "scipy"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", ask, *NAMES], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")


@pytest.mark.parametrize(
    ("name", "arguments", "option"),
    [
        ("average", ["--inputs", "x", "--output", ""], "--output"),
        ("plot", ["x.pt", "--out", ""], "--out"),
        ("ablate", ["x.yaml", "--out", ""], "--out"),
        ("export onnx", [""], "FOLDER"),
        ("distill", ["x", "--data", "", "--source-lang", "en", "--target-lang", "de", "--out", "x"], "--data"),
        ("prepare-text", ["--train", "a", "b", "--out", ""], "--out"),
    ],
)
def test_a_name_that_is_empty_is_refused(name, arguments, option, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        in_process(name, monkeypatch)(*arguments)
    assert end.value.code == 2
    assert f"argument {option}: is empty: give a name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_commands_print_warnings_alone(monkeypatch, capsys):
    """Also where fairseq asks for more, and without a change to what other code may log."""
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.NOTSET)
    monkeypatch.setattr("sys.argv", ["resmlp-mt", "average", "--help"])
    with pytest.raises(SystemExit):
        main()
    capsys.readouterr()
    logging.basicConfig(level=logging.INFO)  # as fairseq_cli does
    logging.getLogger("a library").info("news")
    logging.getLogger("a library").warning("trouble")
    assert capsys.readouterr().err == "trouble\n"
    assert logging.root.manager.disable == logging.NOTSET
