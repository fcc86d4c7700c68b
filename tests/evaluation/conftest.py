"""generated.py can be imported; the command as a fixture."""

import sys
from pathlib import Path

import pytest

from scripts import in_process

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def score_bleu(monkeypatch, capsys):
    """Run scripts/score_bleu.py with these arguments; return what it prints."""
    script = in_process("score_bleu", monkeypatch)

    def run(*args):
        capsys.readouterr()
        script(*args)
        return capsys.readouterr().out

    return run
