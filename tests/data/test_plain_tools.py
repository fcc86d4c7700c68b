"""The whole preparation, compared with the plain sequence of command-line tools, as the benchmark runs them."""

import json
from pathlib import Path

import pytest

from scripts import loaded

MULTI30K = Path(__file__).parents[3] / "shared/data/multi30k"


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="needs Multi30k")
def test_same_bytes_on_multi30k(tmp_path, monkeypatch, capsys):
    options = ["--pairs", "300", "--rounds", "1", "--symbols", "100", "--json", str(tmp_path / "measured.json")]
    script = loaded("benchmarks/corpora.py")
    monkeypatch.setattr("sys.argv", ["corpora.py", "--from", str(MULTI30K), *options])
    script.main()
    assert "the same bytes" in capsys.readouterr().out
    measured = json.loads((tmp_path / "measured.json").read_text())
    for chain in ("plain", "ours"):
        (run,) = measured[chain]
        assert set(run["seconds"]) == {*script.PLAIN, "all"}
        assert run["cpu"] > 0 and run["memory"] > 5 << 20  # a Python process takes more
