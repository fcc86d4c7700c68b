"""What is said before the work."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from resmlp_mt.corpora.download import PublicFile
from resmlp_mt.corpora.plan import WORK, Plan
from resmlp_mt.errors import UserError

FILES = [
    PublicFile("a.tgz", "https://example.org/a.tgz", size=3_000_000),
    PublicFile("b.tgz", "https://example.org/b.tgz"),
]


def _free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free if Path(path).exists() else 0))


def test_the_plan_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _free(monkeypatch, 7_000_000_000)
    out = tmp_path / "new" / "out"
    assert str(Plan(FILES, None, out, 2_000_000)).splitlines() == [
        f"archives in {out}/raw, downloaded where they are missing",
        "  a.tgz  3.0 MB, missing",
        "    https://example.org/a.tgz",
        "  b.tgz  size unknown, missing",
        "    https://example.org/b.tgz",
        "to download: 3.0 MB and 1 of unknown size",
        f"work: about {2 * WORK:.1f} MB ({WORK:.1f} times 2.0 MB of raw text, less what {out} has)",
        f"disk: about {3 + 2 * WORK:.1f} MB needed, 7.0 GB free",
    ]
    assert not (tmp_path / "new").exists()


def test_what_is_there_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _free(monkeypatch, 1)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.tgz.part").write_bytes(b"x" * 1_000_000)
    (tmp_path / "raw" / "b.tgz").write_bytes(b"x" * 5000)
    for name in ("subwords/train.en", "resmlp6/checkpoint_last.pt"):  # the second is not of the preparation
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"x" * 300)
    plan = Plan(FILES, None, tmp_path, 1000)
    assert (plan.download, plan.work) == (2_000_000, round(1000 * WORK) - 300)
    assert "  a.tgz  3.0 MB, 1.0 MB there\n" in str(plan)
    assert "  b.tgz  size unknown, there\n" in str(plan)
    assert Plan(FILES, tmp_path / "raw", tmp_path, 10).download == 0
    assert Plan(FILES, tmp_path / "raw", tmp_path, 10).work == 0


def test_too_little_disk_is_said_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _free(monkeypatch, 4_000_000)
    with pytest.raises(
        UserError,
        match=r"out: 4\.0 MB free on its disk, but about \d+\.\d MB needed \(3\.0 MB of downloads, .* --sample",
    ):
        Plan(FILES, None, tmp_path / "out", 2_000_000).obtained()
    assert list(tmp_path.iterdir()) == []
