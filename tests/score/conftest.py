"""generated.py can be imported; the command as a fixture."""

import sys
from pathlib import Path

import pytest

from scripts import printed

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def score_bleu(monkeypatch, capsys):
    """Run scripts/score_bleu.py with these arguments; return what it prints."""
    return printed("score", monkeypatch, capsys)
