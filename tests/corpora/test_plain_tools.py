"""The whole chain beside the plain sequence of command-line tools, as the benchmark runs them."""

import json
from pathlib import Path

import pytest

from resmlp_mt.commands import benchmark_corpora as benchmark

ROOT = Path(__file__).parents[2]
MULTI30K = ROOT.parent / "shared/data/multi30k"


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="needs Multi30k")
def test_same_bytes_on_multi30k(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--pairs", "3000", "--rounds", "1", "--symbols", "300", "--json", str(tmp_path / "measured.json")]
    monkeypatch.setattr("sys.argv", ["benchmark_corpora", "--from", str(MULTI30K), *options])
    benchmark.main()
    assert "the same bytes" in capsys.readouterr().out
    measured = json.loads((tmp_path / "measured.json").read_text())
    for chain in ("plain", "ours"):
        (run,) = measured[chain]
        assert set(run["seconds"]) == set(benchmark.PARTS)
        assert run["cpu"] > 0 and run["memory"] > 50 << 20
