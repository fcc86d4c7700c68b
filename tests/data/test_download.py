"""Downloads with curl from a server that misbehaves, and files taken from a folder."""

import hashlib
import multiprocessing
import random
import time
from itertools import repeat
from pathlib import Path

import pytest
from data.misbehaving_server import Fault, Server, running

from resmlp_mt.common.errors import UserError
from resmlp_mt.data import download
from resmlp_mt.data.download import PARTS, PublicFile

BYTES = random.Random(1).randbytes(1_024_000)
SHA256 = hashlib.sha256(BYTES).hexdigest()
DROP = Fault(drop_after=300_000)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setattr(download, "RETRIES", 1)
    server.requests.clear()


def _file(server: Server, *faults: Fault, forever: Fault | None = None, **known: object) -> PublicFile:
    url = server.add("a.gz", BYTES, [*faults] if forever is None else repeat(forever))
    return PublicFile("a.gz", url, **({"sha256": SHA256} | known))


def _part(folder: Path) -> Path:
    return folder / PARTS / "a.gz"


@pytest.mark.parametrize(
    ("faults", "statuses"),
    [
        ([], [200]),
        ([Fault(status=503)], [503, 200]),
        ([DROP, Fault(ignore_range=True)], [200, 200, 200]),
        ([DROP, Fault(status=416)], [200, 416, 200]),
        ([Fault(drop_after=100_000)] * 10, [200, *[206] * 10]),
        ([Fault(headers={"Content-Encoding": "x-gzip"})], [200]),  # as Apache sends with .tgz files
        ([Fault(status=302, headers={"Location": "/a.gz"})], [302, 200]),
    ],
)
def test_a_faulty_server_is_survived(server: Server, tmp_path: Path, faults: list[Fault], statuses: list[int]) -> None:
    file = _file(server, *faults)
    assert file.download_into(tmp_path / "new").read_bytes() == BYTES
    assert [status for _, _, status in server.requests] == statuses
    file.download_into(tmp_path / "new")
    assert len(server.requests) == len(statuses)
    assert not _part(tmp_path / "new").exists()


def test_what_stalls_goes_on_where_it_stands(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "CURL", [{"60": "2", "50": "1"}.get(word, word) for word in download.CURL])
    assert _file(server, Fault(seconds=9)).download_into(tmp_path).read_bytes() == BYTES
    assert [requested for _, requested, _ in server.requests] == [None, "bytes=1000-"]


@pytest.mark.parametrize(
    ("fault", "known", "message"),
    [
        (Fault(status=404), {}, "cannot be downloaded: .*404: try later, or get the file"),
        (Fault(body=BYTES[::-1]), {}, "sent other bytes than expected .sha256 is .*, not"),
        (Fault(body=BYTES[:-1]), {"size": len(BYTES)}, "expected .1,023,999 bytes, not 1,024,000"),
        (Fault(body=BYTES[::-1]), {"sha256": None, "md5": "0" * 32}, "md5 is .*, not 0000"),
    ],
)
def test_what_cannot_be_downloaded_is_told(server, tmp_path, fault, known, message):
    with pytest.raises(UserError, match=message):
        _file(server, forever=fault, **known).download_into(tmp_path)
    assert not (tmp_path / "a.gz").exists() and not _part(tmp_path).exists()
    assert _file(server).download_into(tmp_path).read_bytes() == BYTES


def test_no_network_keeps_what_came(server: Server, tmp_path: Path) -> None:
    with running() as gone:
        file = _file(gone)
    _part(tmp_path).parent.mkdir()
    _part(tmp_path).write_bytes(BYTES[:300_000])
    with pytest.raises(UserError, match=r"cannot be downloaded: .*: try later, or .* name its folder"):
        file.download_into(tmp_path)
    assert file.bytes_in(tmp_path) == 300_000
    assert _file(server).download_into(tmp_path).read_bytes() == BYTES
    assert server.requests == [("a.gz", "bytes=300000-", 206)]


@pytest.mark.parametrize("wrong", [BYTES[:1000] + b"?" + BYTES[1001:300_000], BYTES + b"more"])
def test_what_came_before_may_be_wrong(server: Server, tmp_path: Path, wrong: bytes) -> None:
    _part(tmp_path).parent.mkdir()
    _part(tmp_path).write_bytes(wrong)
    assert _file(server, mirrors=(server.add("b.gz", BYTES),)).download_into(tmp_path).read_bytes() == BYTES


def test_another_address_gives_the_rest(server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    second = server.add("copy/a.gz", BYTES)
    file = _file(server, DROP, Fault(status=503), Fault(status=503), mirrors=(second,))
    assert file.download_into(tmp_path).read_bytes() == BYTES
    assert {name for name, _, _ in server.requests} == {"copy/a.gz", "a.gz"}
    (told,) = capfd.readouterr().err.splitlines()
    assert told.startswith(f"{file.url}: cannot be downloaded: ") and told.endswith(f": trying {second}")


def test_killed_and_run_again(server: Server, tmp_path: Path) -> None:
    file = _file(server, Fault(seconds=0.003))
    first = multiprocessing.get_context("fork").Process(target=file.download_into, args=(tmp_path,))
    first.start()
    while file.bytes_in(tmp_path) < 300_000:
        assert first.is_alive()
        time.sleep(0.01)
    with pytest.raises(UserError, match=r"a\.gz: another run is downloading it"):
        file.download_into(tmp_path)
    first.kill()
    first.join()
    there = file.bytes_in(tmp_path)
    assert not (tmp_path / "a.gz").exists()
    assert file.download_into(tmp_path).read_bytes() == BYTES
    (_, first_range, _), (_, second_range, status) = server.requests
    assert (first_range, status) == (None, 206)
    assert there <= int(second_range.removeprefix("bytes=").removesuffix("-")) < there + 200_000  # so curl ended, too


def test_full_disk(server: Server, tmp_path: Path) -> None:
    _part(tmp_path).parent.mkdir()
    _part(tmp_path).symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"/a\.gz: cannot be written: make room"):
        _file(server, size=len(BYTES)).download_into(tmp_path)
    assert not (tmp_path / "a.gz").exists()


def test_a_user_s_file_is_taken_or_left(server: Server, tmp_path: Path) -> None:
    file = _file(server)
    with pytest.raises(UserError, match=rf"a\.gz: no such file: get it from {file.url}"):
        file.checked_in(tmp_path)
    (tmp_path / "a.gz").write_bytes(BYTES[:-1])
    with pytest.raises(UserError, match=r"a\.gz: sha256 is .*127\.0\.0\.1"):
        file.checked_in(tmp_path)
    with pytest.raises(UserError, match=r"a\.gz: sha256 is .*: move it away"):
        file.download_into(tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == BYTES[:-1] and server.requests == []
    (tmp_path / "a.gz").write_bytes(BYTES)
    assert file.checked_in(tmp_path) == tmp_path / "a.gz"
