"""What every command has in common."""

import re
import subprocess
import sys

import pytest

from resmlp_mt.cli import COMMANDS, main
from scripts import in_process

NAMES = list(COMMANDS)


def test_the_commands_are_listed_and_another_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["resmlp-mt"])
    main()
    assert re.findall(r"^  ([\w -]*\w)  ", capsys.readouterr().out, re.M) == NAMES
    monkeypatch.setattr(sys, "argv", ["resmlp-mt", "train"])
    with pytest.raises(SystemExit, match=r"^2$"):
        main()
    assert capsys.readouterr().err == "resmlp-mt: no command 'train'; resmlp-mt --help lists them\n"


@pytest.mark.parametrize("name", NAMES)
def test_help_tells_the_options(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["resmlp-mt", *name.split(), "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    shown = capsys.readouterr()
    assert shown.out.startswith("usage: ") and "--help" in shown.out
    assert re.search(r"\nexamples?:\n(  .*\n)*  resmlp-mt ", shown.out)


def test_help_needs_no_torch():
    """One process asks every command for its options; a command imports what its work needs only after that."""
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
    [("average", ["--inputs", "x", "--output", ""], "--output"), ("export onnx", [""], "FOLDER")],
)
def test_a_name_that_is_empty_is_refused(name, arguments, option, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"^2$"):
        in_process(name, monkeypatch)(*arguments)
    assert f"argument {option}: is empty: give a name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
