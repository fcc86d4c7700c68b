"""examples/benchmarks/operators.py: every operator at both sizes, with its limit beside it."""

import json

import torch

from scripts import loaded


def test_every_operator_has_a_time_and_a_limit_at_both_sizes(tmp_path, monkeypatch):
    script = loaded("benchmarks/operators.py")
    done = []

    def seconds(work):
        result = work()
        done.append(tuple(result.shape) if isinstance(result, torch.Tensor) else tuple(result.values.shape))
        return 2e-6 * len(done)

    monkeypatch.setattr(script, "seconds", seconds)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr("sys.argv", ["operators.py", "--json", str(tmp_path / "o.json")])
    script.main()
    found = json.loads((tmp_path / "o.json").read_text())
    assert {len(cells) for cells in found["rows"].values()} == {len(found["columns"])} == {6}
    assert {(4, 4128), (256, 4128), (4, 512), (256, 512), (4, 10), (256, 10)} <= set(done)
    *_, took, limit, ratio = found["rows"]["addition of 256 channels"]
    assert (took, limit) == (f"{2 * len(done):,}", f"{2 * (len(done) - 1):,}")
    assert ratio == f"{len(done) / (len(done) - 1):.1f}"
