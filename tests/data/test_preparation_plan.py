"""What is said before the work."""

import hashlib
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from data.misbehaving_server import running

from resmlp_mt.common.errors import UserError
from resmlp_mt.data import download
from resmlp_mt.data.disk import DiskWork
from resmlp_mt.data.download import PublicFile
from resmlp_mt.data.partial_download import FOLDER
from resmlp_mt.data.preparation_plan import PreparationPlan

MD5 = hashlib.md5(b"").hexdigest()
ZIP = PublicFile("a.zip", "https://example.org/a.zip", md5=hashlib.md5(b"zip").hexdigest(), size=3)
A = PublicFile("a.tgz", "https://example.org/a.tgz", md5=MD5, size=3_000_000, mirrors=("https://b.org/a",), zipped=ZIP)
B = PublicFile("b.tgz", "https://example.org/b.tgz", md5=MD5)
FILES = {A: ("t/a.en", "t/a.de.gz"), B: ()}


def _free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free if Path(path).exists() else 0))


def _written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_plan_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _free(monkeypatch, 7_000_000_000)
    out = tmp_path / "new" / "out"
    assert str(
        PreparationPlan(FILES, None, DiskWork(out, 2_000_000), mirrors=["https://example.com/wmt/"])
    ).splitlines() == [
        f"archives in {out}/raw, downloaded where they are missing",
        "  a.tgz  3.0 MB, missing",
        "    https://example.com/wmt/a.tgz",
        "    https://example.org/a.tgz",
        "    https://b.org/a",
        "  b.tgz  size unknown, missing",
        "    https://example.com/wmt/b.tgz",
        "    https://example.org/b.tgz",
        "to download: 3.0 MB and 1 of unknown size",
        f"work: about 6.0 MB (3.0 times 2.0 MB of raw text, less what {out} has)",
        "disk: about 9.0 MB needed, 7.0 GB free",
    ]
    assert not (tmp_path / "new").exists()


def test_what_is_there_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _free(monkeypatch, 1)
    _written(tmp_path / "raw" / FOLDER / "a.tgz.1", b"x" * 1_000_000)
    _written(tmp_path / "raw" / "b.tgz", b"x" * 5000)
    _written(tmp_path / "subwords" / "train.en", b"x" * 300)
    _written(tmp_path / "resmlp6" / "checkpoint_last.pt", b"x" * 300)  # is not of the preparation
    plan = PreparationPlan(FILES, None, DiskWork(tmp_path, 1000))
    assert (plan.download, plan.work.needed) == (2_000_000, 3000 - 300)
    assert "  a.tgz  3.0 MB, 1.0 MB there\n" in str(plan)
    assert "  b.tgz  size unknown, there\n" in str(plan)
    assert "to download: 2.0 MB\n" in str(plan)
    assert str(plan).endswith("needed, 1 bytes free: too little")
    assert PreparationPlan(FILES, tmp_path / "raw", DiskWork(tmp_path, 10)).download == 0


def test_archives_of_the_wrong_size_are_not_there(tmp_path: Path) -> None:
    _written(tmp_path / "raw" / "a.tgz", b"x" * 2_999_999)
    plan = PreparationPlan(FILES, None, DiskWork(tmp_path, 1000))
    assert plan.download == 3_000_000
    assert "  a.tgz  3.0 MB, 2,999,999 bytes, not 3,000,000: will be downloaded\n" in str(plan)
    plan = PreparationPlan(FILES, tmp_path / "raw", DiskWork(tmp_path, 1000))
    assert "  a.tgz  3.0 MB, 2,999,999 bytes, not 3,000,000: get it again\n" in str(plan)
    _written(tmp_path / "raw" / "a.tgz", b"x" * 3_000_000)
    assert "  a.tgz  3.0 MB, there\n" in str(plan)


def test_too_little_disk_is_said_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _free(monkeypatch, 4_000_000)
    with pytest.raises(
        UserError,
        match=r"out: 4\.0 MB free on its disk, but about \d+\.\d MB needed \(3\.0 MB of downloads, .* --sample",
    ):
        PreparationPlan(FILES, None, DiskWork(tmp_path / "out", 2_000_000)).obtained()
    assert list(tmp_path.iterdir()) == []


def test_a_zip_or_unpacked_files_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = PreparationPlan(FILES, tmp_path, DiskWork(tmp_path / "out", 1000))
    _written(tmp_path / "b.tgz", b"")
    assert "  a.tgz  3.0 MB, missing\n    https://example.org/a.tgz\n    https://b.org/a\n    or https:" in str(plan)
    _written(tmp_path / "t" / "a.en", b"")
    with pytest.raises(UserError, match=r"a\.tgz: no such file: get it from https://example\.org/a\.tgz"):
        plan.obtained()
    _written(tmp_path / "t" / "a.de", b"")  # decompressed too
    assert "  a.tgz  3.0 MB, there, unpacked\n" in str(plan)
    assert plan.inputs == [tmp_path / "t" / "a.en", tmp_path / "t" / "a.de", tmp_path / "b.tgz"]
    assert plan.obtained() == {"a.tgz": tmp_path, "b.tgz": tmp_path / "b.tgz"}
    assert f"{tmp_path}: has a.tgz unpacked, which is taken as it is" in capsys.readouterr().out
    _written(tmp_path / "a.zip", b"zap")
    with pytest.raises(UserError, match=r"a\.zip: md5 is .*: get the file again from https://example\.org/a\.zip"):
        plan.obtained()
    _written(tmp_path / "a.zip", b"zip")
    assert "  a.tgz  3.0 MB, there as a.zip\n" in str(plan)
    assert plan.inputs == [tmp_path / "a.zip", tmp_path / "b.tgz"]
    assert plan.obtained()["a.tgz"] == tmp_path / "a.zip"


def test_a_dead_mirror_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(download.time, "sleep", waited.append)
    with running() as gone:
        dead = gone.url("mirror")
    with running() as server:
        files = {PublicFile(name, server.add(name, b""), md5=MD5): () for name in ("a.tgz", "b.tgz", "c.tgz")}
        assert len(PreparationPlan(files, None, DiskWork(tmp_path, 1000), mirrors=[dead]).obtained()) == 3
    assert 60 < sum(seconds for seconds in waited if seconds >= 1) < 65
    assert f"{dead}/b.tgz" not in capsys.readouterr().err


@pytest.mark.parametrize("mirror", ["ftp://example.org", "downloads", "", "http://", "http:///wmt", "http://a b/"])
def test_mirrors_that_are_none(tmp_path: Path, mirror: str) -> None:
    with pytest.raises(UserError, match=f"^--mirror {mirror}: is no address of http or https"):
        PreparationPlan(FILES, None, DiskWork(tmp_path, 1000), mirrors=[mirror])


def test_mirrors_are_of_no_use_with_archives(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--mirror: nothing is downloaded with --archives"):
        PreparationPlan(FILES, tmp_path, DiskWork(tmp_path, 1000), mirrors=["https://example.org"])


@pytest.mark.parametrize(
    ("archives", "out", "message"),
    [
        ("nowhere", "out", "--archives .*nowhere: is not a folder"),
        ("file", "out", "--archives .*file: is not a folder"),
        (None, "file", "--out .*file: is not a folder"),
        (None, "x" * 300, "--out .*x: File name too long"),
    ],
)
def test_folders_that_are_none(tmp_path: Path, archives: str | None, out: str, message: str) -> None:
    _written(tmp_path / "file", b"mine")
    with pytest.raises(UserError, match=message):
        PreparationPlan(FILES, tmp_path / archives if archives else None, DiskWork(tmp_path / out, 1000))
