"""generated.py can be imported; scripts run in this process, where fairseq is imported already."""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def score_bleu(monkeypatch, capsys):
    """Run scripts/score_bleu.py with these arguments; return what it prints."""
    spec = importlib.util.spec_from_file_location("score_bleu", SCRIPTS / "score_bleu.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["score_bleu.py", *map(str, args)])
        capsys.readouterr()
        script.main()
        return capsys.readouterr().out

    return run
