"""What is said of the disk before the work."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.disk import WORK, DiskWork, text_bytes


def _sized(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.mark.parametrize(
    ("old", "anew", "expected"),
    [
        # In thousands of bytes of the folders' files; a million of text makes 1,100, 1,200 and 700 of them.
        ((0, 0, 0), (), 3000),
        ((1100, 1200, 700), (), 0),
        ((1100, 600, 0), (), 1300),
        ((1100, 1200, 700), ("subwords", "data-bin"), 1200),  # one after the other takes the place of the old
        ((1100, 1200, 700), ("tokenized", "subwords", "data-bin"), 1200),
        ((1100, 0, 0), ("tokenized", "subwords", "data-bin"), 1900),
        ((500, 600, 700), ("tokenized", "subwords", "data-bin"), 600 + 600 + 700),  # twice as much text as before
        ((2200, 2400, 1400), ("tokenized", "subwords", "data-bin"), 1100),  # half of it
    ],
)
def test_what_is_made_anew_stands_beside_the_old(
    tmp_path: Path, old: tuple[int, ...], anew: tuple[str, ...], expected: int
) -> None:
    for name, size in zip(WORK, old, strict=True):
        _sized(tmp_path / name / "train.en", size * 1000)
    work = DiskWork(tmp_path, 1_000_000, anew)
    assert work.needed == expected * 1000
    assert ("; subwords, data-bin anew, beside the old)" in str(work)) == (anew == ("subwords", "data-bin"))


def test_what_is_made_needs_no_more(tmp_path: Path) -> None:
    for made, expected in (((), 3_000_000), (("tokenized",), 1_900_000), (tuple(WORK), 0)):
        assert DiskWork(tmp_path, 1_000_000, made=made).needed == expected


def test_folders_that_are_not_written_need_nothing(tmp_path: Path) -> None:
    work = DiskWork(tmp_path, 1_000_000, folders=["subwords", "data-bin"])
    assert work.needed == 1_900_000
    assert str(work).startswith("work: about 1.9 MB (1.9 times 1.0 MB of raw text")


def test_what_a_killed_run_left_unfinished_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    work = DiskWork(tmp_path, 1000)
    with pytest.raises(UserError, match=r"1\.0 kB free on its disk, but about 3\.0 kB needed \(3\.0 kB of work for"):
        work.check()
    _sized(tmp_path / ".unfinished" / ".train.1.en.tmp", 2000)
    work.check()
    with pytest.raises(UserError, match=r"about 3\.0 kB needed \(1 bytes of downloads, 3\.0 kB of work"):
        work.check(download=1)


def test_the_text_of_a_file(tmp_path: Path) -> None:
    assert [text_bytes(_sized(tmp_path / name, 1000)) for name in ("a.en", "a.en.gz")] == [1000, 3000]
