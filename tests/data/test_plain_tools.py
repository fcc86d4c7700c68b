"""The whole chain beside the plain sequence of command-line tools, as the benchmark runs them."""

import json
from pathlib import Path

import pytest

from resmlp_mt import cli
from resmlp_mt.lab.benchmarks.corpora import PLAIN

MULTI30K = Path(__file__).parents[3] / "shared/data/multi30k"


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="needs Multi30k")
def test_same_bytes_on_multi30k(tmp_path, monkeypatch, capsys):
    options = ["--pairs", "300", "--rounds", "1", "--symbols", "100", "--json", str(tmp_path / "measured.json")]
    monkeypatch.setattr("sys.argv", ["benchmark_corpora", "--from", str(MULTI30K), *options])
    cli.run("benchmark-corpora")
    assert "the same bytes" in capsys.readouterr().out
    measured = json.loads((tmp_path / "measured.json").read_text())
    for chain in ("plain", "ours"):
        (run,) = measured[chain]
        assert set(run["seconds"]) == {*PLAIN, "all"}
        assert run["cpu"] > 0 and run["memory"] > 5 << 20  # a Python process has more
