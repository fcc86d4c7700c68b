"""Steps on record: checksums, progress, times."""

import hashlib
import json
import os
import re
import time
from pathlib import Path

import pytest

from resmlp_mt.data import checksums
from resmlp_mt.data.checksums import Checksums
from resmlp_mt.data.progress import Progress
from resmlp_mt.data.record import Place
from resmlp_mt.data.steps import Step, Steps


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were really read for their sums."""
    read: list[Path] = []
    sha256_of = checksums.sha256_of
    monkeypatch.setattr(checksums, "sha256_of", lambda path: read.append(path) or sha256_of(path))
    return read


def _written(path: Path, text: bytes) -> Path:
    path.write_bytes(text)
    return path


def test_sums_are_computed_once(tmp_path: Path, reads: list[Path]) -> None:
    (tmp_path / "ours").mkdir()
    file = _written(tmp_path / "ours" / "a", b"text")
    sums = Checksums(tmp_path / "sums", ours=tmp_path / "ours")
    expected = hashlib.sha256(b"text").hexdigest()
    assert [sums.of(file), sums.of(file)] == [expected] * 2
    sums.save()
    assert Checksums(tmp_path / "sums", ours=tmp_path / "ours").of(file) == expected
    assert reads == [file]


def test_a_file_with_the_same_size_and_mtime_is_read_again(tmp_path: Path, reads: list[Path]) -> None:
    file = _written(tmp_path / "a", b"text")
    sums = Checksums(tmp_path / "sums", ours=tmp_path)
    sums.of(file)
    before = file.stat()
    while time.time_ns() < before.st_ctime_ns + 20_000_000:  # until the file system's clock has ticked
        pass
    file.write_bytes(b"next")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert sums.of(file) == hashlib.sha256(b"next").hexdigest()
    assert len(reads) == 2


def test_the_sum_of_a_file_just_changed_by_others_is_not_kept(
    tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _written(tmp_path / "a", b"text")
    sums = Checksums(tmp_path / "sums", ours=tmp_path / "elsewhere")
    sums.of(file)
    sums.of(file)
    assert len(reads) == 2
    monkeypatch.setattr(checksums, "SETTLED", -1.0)
    sums.of(file)
    sums.of(file)
    assert len(reads) == 3


@pytest.mark.parametrize("entry", ["5", "null", "[]", "{}", '{"identity": [1]}', '{"identity": 1, "sha256": "ab"}'])
def test_broken_sums_are_none(tmp_path: Path, reads: list[Path], entry: str) -> None:
    file = _written(tmp_path / "a", b"text")
    (tmp_path / "sums").write_text(f"{{{json.dumps(str(file))}: {entry}}}")
    sums = Checksums(tmp_path / "sums", ours=tmp_path)
    assert sums.of(file) == hashlib.sha256(b"text").hexdigest()
    sums.save()
    Checksums(tmp_path / "sums", ours=tmp_path).of(file)
    assert reads == [file]


def test_times_are_kept_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> dict[str, int]:
        (tmp_path / "b").write_text("x")
        return {"pairs": 12}

    for _ in range(2):
        with Steps.of_folder(Place(tmp_path)) as steps:
            steps.run(Step("work", [], [tmp_path / "b"], {}), work)
            steps.finish()
    assert json.loads((tmp_path / "times.json").read_text())["work"]["pairs"] == 12
    assert "seconds" not in (tmp_path / "steps.json").read_text()
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"work: 12 pairs in 0\.\d s, [\d,]+ pairs/s", lines[1])
    assert lines[2:] == ["work: nothing changed, reused"]


def test_progress_in_a_log(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Progress("silent") as progress:
        progress.add(10, {"empty": 1})
    assert progress.outcome == {"kept": 9, "dropped": {"empty": 1}}
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("resmlp_mt.data.progress.PAUSE", 0.0)
    with Progress("split train") as progress:
        progress.add(1000, {"ratio": 2, "empty": 1})
        progress.add(500)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"split train: 1,000 pairs, [\d,]+ pairs/s, dropped: 1 empty, 2 ratio", lines[0])
    assert lines[1].startswith("split train: 1,500 pairs, ")
    with Progress("learn", total=3000, unit="merges") as progress:
        progress.add(0)
        progress.add(1000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "learn: 0 s so far"
    assert re.fullmatch(r"learn: 1,000 of 3,000 merges, [\d,]+ merges/s", lines[1])


def test_progress_that_the_shell_has_closed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with Progress("split train") as progress:
        progress.add(1000)
    assert progress.pairs == 1000


def test_progress_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress("split train", total=2000) as progress:
        progress.add(1000, {"ratio": 2})
        progress.add(1000)
    shown = capsys.readouterr().err
    assert "split train: 100%" in shown and "2000/2000" in shown and "dropped: 2 ratio" in shown
    assert "\n" not in shown.rstrip("\n")
