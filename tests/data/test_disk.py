"""What is said of the disk before the work."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.steps import check_disk, disk_needed, text_bytes


def _sized(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_what_is_there_needs_no_more(tmp_path: Path) -> None:
    assert disk_needed(tmp_path, 1_000_000) == 3_000_000
    _sized(tmp_path / "tokenized" / "train.en", 1_100_000)
    assert disk_needed(tmp_path, 1_000_000) == 1_900_000
    assert disk_needed(tmp_path, 1000) == 0


def test_what_a_killed_run_left_unfinished_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(UserError, match=r"1\.0 kB free on its disk, but about 3\.0 kB needed"):
        check_disk(tmp_path, 1000)
    _sized(tmp_path / ".unfinished" / ".train.1.en.tmp", 2000)
    check_disk(tmp_path, 1000)
    with pytest.raises(UserError, match=r"about 3\.0 kB needed \(1 bytes of downloads"):
        check_disk(tmp_path, 1000, download=1)


def test_the_text_of_a_file(tmp_path: Path) -> None:
    assert [text_bytes(_sized(tmp_path / name, 1000)) for name in ("a.en", "a.en.gz")] == [1000, 3000]
