"""Downloads from a server that misbehaves, and files from a folder."""

import hashlib
import importlib.util
import multiprocessing
import resource
import subprocess
import time
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest
from corpora.misbehaving_server import Fault, Server, running

from resmlp_mt.corpora.download import PublicFile
from resmlp_mt.errors import UserError

ROOT = Path(__file__).parents[2]
BYTES = bytes(range(256)) * 4000  # 1,024,000
SHA256 = hashlib.sha256(BYTES).hexdigest()
DROP = Fault(drop_after=300_000)
PAGE = b"<!DOCTYPE html><html><head><title>Drive -\n Virus  scan warning</title></head></html>"


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server


def _file(server: Server, *faults: Fault, forever: Fault | None = None, **known: object) -> PublicFile:
    url = server.add("a.gz", BYTES, [*faults] if forever is None else repeat(forever))
    return PublicFile("a.gz", url, **({"sha256": SHA256} | known))


def _ranges(server: Server) -> list[tuple[str | None, int]]:
    return [(wanted, status) for _, wanted, status in server.requests]


@pytest.mark.parametrize(
    ("faults", "ranges"),
    [
        ([], [(None, 200)]),
        ([Fault(status=503), Fault(status=429)], [(None, 503), (None, 429), (None, 200)]),
        ([DROP, DROP], [(None, 200), ("bytes=300000-", 206), ("bytes=600000-", 206)]),
        ([Fault(drop_after=0)], [(None, 200), (None, 200)]),
        ([DROP, Fault(ignore_range=True)], [(None, 200), ("bytes=300000-", 200)]),
        ([DROP, Fault(shift=5)], [(None, 200), ("bytes=300000-", 206), (None, 200)]),
        ([DROP, Fault(status=503), DROP],
         [(None, 200), ("bytes=300000-", 503), ("bytes=300000-", 206), ("bytes=600000-", 206)]),
        ([Fault(length=2_000_000)], [(None, 200), ("bytes=1024000-", 416)]),
        ([DROP, Fault(status=416)], [(None, 200), ("bytes=300000-", 416), (None, 200)]),
    ],
)  # fmt: skip
def test_survived(server: Server, tmp_path: Path, faults: list[Fault], ranges: list[tuple[str | None, int]]) -> None:
    file = _file(server, *faults)
    assert file.fetched_into(tmp_path / "new", attempts=3, pause=0.001).read_bytes() == BYTES
    assert _ranges(server) == ranges
    file.fetched_into(tmp_path / "new")
    assert len(server.requests) == len(ranges)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.gz"]


def test_waiting_is_told(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _file(server, Fault(status=503))
    file.fetched_into(tmp_path, pause=0)
    assert capsys.readouterr().err == f"{file.url}: the server answers 503 Service Unavailable: again in 0 s\n"


def test_received_bytes_reset_the_count(server: Server, tmp_path: Path) -> None:
    file = _file(server, forever=Fault(drop_after=50_000))
    assert file.fetched_into(tmp_path, attempts=2, pause=0).read_bytes() == BYTES
    assert len(server.requests) == 21


@pytest.mark.parametrize(
    ("fault", "known", "message", "requests"),
    [
        (Fault(status=404), {}, "the server answers 404 .*: try later, or get the file", 1),
        (Fault(status=503), {}, r"the server answers 503 .*\(3 attempts\)", 3),
        (Fault(body=BYTES[::-1]), {}, "sent other bytes than expected .sha256 is .*, not", 1),
        (Fault(body=BYTES[:-1]), {}, "sent other bytes than expected", 1),
        (Fault(length=1000), {}, "sent other bytes than expected", 1),
        (Fault(length=1000), {"size": len(BYTES)}, "offers 1,000 bytes, not the expected 1,024,000", 1),
        (Fault(body=PAGE), {"size": len(BYTES)}, "sent a web page .'Drive - Virus scan warning'., not the file", 1),
        (Fault(drop_after=1000, ignore_range=True), {}, r"broke off after 1,000 of 1,024,000 bytes \(3 attempts\)", 3),
        (Fault(body=BYTES[::-1]), {"sha256": None, "md5": "0" * 32}, "md5 is .*, not 0000", 1),
    ],
)
def test_reported(
    server: Server, tmp_path: Path, fault: Fault, known: dict[str, object], message: str, requests: int
) -> None:
    file = _file(server, forever=fault, **known)
    with pytest.raises(UserError, match=message) as error:
        file.fetched_into(tmp_path, attempts=3, pause=0.001)
    assert "\n" not in str(error.value)
    assert len(server.requests) == requests
    assert {path.name for path in tmp_path.iterdir()} <= {"a.gz.part", "a.gz.part-version"}


def test_no_network(tmp_path: Path) -> None:
    with running() as gone:
        file = _file(gone)
    with pytest.raises(UserError, match=r"cannot be downloaded: .*refused.*2 attempts.*name its folder"):
        file.fetched_into(tmp_path, attempts=2, pause=0.01)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tags", "blind", "ranges"),
    [
        (True, False, [(None, 200), ("bytes=300000-", 200)]),  # If-Range tells the server
        (True, True, [(None, 200), ("bytes=300000-", 206), (None, 200)]),  # the checksum tells
        (False, False, [(None, 200), ("bytes=300000-", 206), (None, 200)]),
    ],
)
def test_two_versions_are_never_glued(
    server: Server, tmp_path: Path, tags: bool, blind: bool, ranges: list[tuple[str | None, int]]
) -> None:
    server.tags = tags
    file = _file(server, Fault(body=BYTES[::-1], drop_after=300_000), Fault(blind=blind))
    assert file.fetched_into(tmp_path, pause=0.001).read_bytes() == BYTES
    assert _ranges(server) == ranges


def test_without_checksum_the_first_is_the_measure(server: Server, tmp_path: Path) -> None:
    file = _file(server, sha256=None)
    file.fetched_into(tmp_path)
    assert (tmp_path / "a.gz.sha256").read_text() == f"{SHA256}  a.gz\n"
    assert subprocess.run(["sha256sum", "-c", "a.gz.sha256"], cwd=tmp_path, capture_output=True).returncode == 0
    (tmp_path / "a.gz").unlink()
    server.add("a.gz", BYTES[::-1])
    with pytest.raises(UserError, match=f"sha256 is .*, not {SHA256}"):
        file.fetched_into(tmp_path)


def test_without_checksum_and_version_nothing_is_continued(server: Server, tmp_path: Path) -> None:
    server.tags = False
    file = _file(server, Fault(body=BYTES[::-1], drop_after=300_000), sha256=None)
    assert file.fetched_into(tmp_path, pause=0.001).read_bytes() == BYTES
    assert _ranges(server) == [(None, 200), (None, 200)]


def test_a_wrong_file_is_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"half")
    assert _file(server).fetched_into(tmp_path).read_bytes() == BYTES


def test_killed_and_run_again(server: Server, tmp_path: Path) -> None:
    file = _file(server, Fault(seconds=0.003))
    first = multiprocessing.get_context("fork").Process(target=file.fetched_into, args=(tmp_path,))
    first.start()
    while file.present_in(tmp_path) < 300_000:
        assert first.is_alive()
        time.sleep(0.01)
    with pytest.raises(UserError, match=r"a\.gz\.part: another run is downloading it"):
        file.fetched_into(tmp_path)
    first.kill()
    first.join()
    there = file.present_in(tmp_path)
    assert not (tmp_path / "a.gz").exists()
    assert file.fetched_into(tmp_path).read_bytes() == BYTES
    assert _ranges(server) == [(None, 200), (f"bytes={there}-", 206)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.gz"]


def test_full_disk(server: Server, tmp_path: Path) -> None:
    file = _file(server)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, limit[1]))
    try:
        with pytest.raises(UserError, match=r"/a\.gz\.part: cannot be written: File too large$"):
            file.fetched_into(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert file.fetched_into(tmp_path).read_bytes() == BYTES
    assert _ranges(server) == [(None, 200), ("bytes=400000-", 206)]


def test_from_a_folder(tmp_path: Path) -> None:
    file = PublicFile("a.gz", "https://example.org/a.gz", SHA256)
    with pytest.raises(UserError, match=r"a\.gz: no such file: get it from https://example\.org/a\.gz"):
        file.taken_from(tmp_path)
    (tmp_path / "a.gz").write_bytes(BYTES[:-1])
    with pytest.raises(UserError, match=r"a\.gz: sha256 is .*example\.org"):
        file.taken_from(tmp_path)
    (tmp_path / "a.gz").write_bytes(BYTES)
    assert file.taken_from(tmp_path) == tmp_path / "a.gz"
    with pytest.raises(UserError, match=r"a\.gz: 1,024,000 bytes, not 5"):
        PublicFile("a.gz", "https://example.org/a.gz", size=5).taken_from(tmp_path)


def test_multi30k_names_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("prepare_multi30k", ROOT / "examples/multi30k/prepare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr("sys.argv", ["prepare.py", "--from", str(tmp_path), "--out", str(tmp_path / "out")])
    with pytest.raises(UserError, match=r"train\.en\.gz: no such file"):
        module.main()
    (tmp_path / "train.en.gz").write_bytes(b"")
    with pytest.raises(
        UserError, match=r"train\.en\.gz: sha256 is .*https://raw\.githubusercontent\.com/multi30k/dataset/"
    ):
        module.main()
    assert not (tmp_path / "out").exists()
