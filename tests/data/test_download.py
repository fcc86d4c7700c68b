"""Downloads from a server that misbehaves, and files from a folder."""

import gzip
import hashlib
import importlib.util
import multiprocessing
import random
import resource
import shutil
import time
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace

import pytest
from data.misbehaving_server import Fault, Server, running

from resmlp_mt.common.errors import UserError
from resmlp_mt.data import download
from resmlp_mt.data.download import BLOCK, OVERLAP, RESERVE, PublicFile
from resmlp_mt.data.partial_download import FOLDER

ROOT = Path(__file__).parents[2]
BYTES = random.Random(1).randbytes(1_024_000)
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


def _rest(size: int) -> str:
    """What is asked for where so many bytes are there: the last of them once more."""
    return f"bytes={size - OVERLAP}-"


@pytest.mark.parametrize("fault", [Fault(endless=True), Fault(chunked=True), Fault()])
def test_a_file_of_unknown_size_has_an_end(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr(download, "LARGEST", 500_000)
    with pytest.raises(UserError, match=r"a\.gz: (sends more than 500,000 bytes|offers 1,024,000 bytes, more than)"):
        _file(server, forever=fault).fetched_into(tmp_path)
    assert [*tmp_path.rglob("*")] == []
    assert _file(server, forever=fault, size=len(BYTES)).fetched_into(tmp_path).read_bytes() == BYTES


def test_a_file_of_unknown_size_leaves_room_on_the_disk(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(path: Path) -> SimpleNamespace:
        return SimpleNamespace(free=RESERVE + 500_000 - sum(file.stat().st_size for file in Path(path).iterdir()))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", usage)
        with pytest.raises(
            UserError, match=r"a\.gz\.1: .* free on its disk, of which .* 100\.0 MB .*: make room"
        ) as error:
            _file(server, forever=Fault(endless=True)).fetched_into(tmp_path)
        assert "\n" not in str(error.value)
        assert 500_000 < (tmp_path / FOLDER / "a.gz.1").stat().st_size < 500_000 + BLOCK
    assert _file(server).fetched_into(tmp_path).read_bytes() == BYTES
    assert _ranges(server)[-1][1] == 206  # what had come was kept


@pytest.mark.parametrize(
    ("faults", "ranges"),
    [
        ([], [(None, 200)]),
        ([Fault(status=503), Fault(status=429)], [(None, 503), (None, 429), (None, 200)]),
        ([DROP, Fault(drop_after=301_024)], [(None, 200), (_rest(300_000), 206), (_rest(600_000), 206)]),
        ([Fault(drop_after=0)], [(None, 200), (None, 200)]),
        ([DROP, Fault(ignore_range=True)], [(None, 200), (_rest(300_000), 200)]),
        ([DROP, Fault(shift=5)], [(None, 200), (_rest(300_000), 206)]),  # within what is there
        ([DROP, Fault(shift=-5)], [(None, 200), (_rest(300_000), 206)]),
        ([DROP, Fault(shift=5000)], [(None, 200), (_rest(300_000), 206), (None, 200)]),
        ([DROP, Fault(shift=5, lie=True)], [(None, 200), (_rest(300_000), 206), (None, 200)]),
        ([DROP, Fault(headers={"Content-Range": "none"})], [(None, 200), (_rest(300_000), 206), (None, 200)]),
        ([DROP, Fault(status=503), Fault(drop_after=301_024)],
         [(None, 200), (_rest(300_000), 503), (_rest(300_000), 206), (_rest(600_000), 206)]),
        ([Fault(length=2_000_000)], [(None, 200), (_rest(1_024_000), 206)]),
        ([DROP, Fault(status=416)], [(None, 200), (_rest(300_000), 416), (None, 200)]),
        ([Fault(endless=True)], [(None, 200)]),
        ([Fault(endless=True, drop_after=300_000)], [(None, 200), (_rest(300_000), 206)]),
        ([Fault(chunked=True)], [(None, 200)]),
        ([Fault(chunked=True, drop_after=300_000)], [(None, 200), (_rest(300_000), 206)]),
        ([Fault(headers={"Content-Encoding": "x-gzip"})], [(None, 200)]),  # as Apache says of .tgz files
        ([Fault(status=302, headers={"Location": "/a.gz"})], [(None, 302), (None, 200)]),
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
    assert {path.name for path in tmp_path.iterdir()} <= {FOLDER}


def test_no_network(tmp_path: Path) -> None:
    with running() as gone:
        file = _file(gone)
    with pytest.raises(UserError, match=r"cannot be downloaded: .*refused.*2 attempts.*name its folder"):
        file.fetched_into(tmp_path, attempts=2, pause=0.01)
    assert list(tmp_path.iterdir()) == []


OTHER = bytes(reversed(BYTES))
WORSE = {
    "a page": Fault(body=PAGE, ignore_range=True),
    "a page with a range": Fault(body=PAGE + bytes(len(BYTES))),
    "a page by a redirect": Fault(status=302, headers={"Location": "/page"}),
    "a page without a mark": Fault(body=b"Please log in.", ignore_range=True),
    "a compressed page": Fault(body=gzip.compress(PAGE), headers={"Content-Encoding": "gzip"}, ignore_range=True),
    "an empty file": Fault(body=b"", ignore_range=True),
    "the rest of nothing": Fault(status=416, headers={"Content-Range": "bytes */0"}),
    "another length": Fault(body=BYTES + b"more"),
    "another length without ranges": Fault(body=BYTES + b"more", ignore_range=True),
    "a shorter file": Fault(body=BYTES[:200_000]),
    "a shorter file without ranges": Fault(body=BYTES[:200_000], ignore_range=True),
    "another version": Fault(body=OTHER),
    "another version without ranges": Fault(body=OTHER, ignore_range=True),
    "another version from where it went on": Fault(body=BYTES[:300_000] + OTHER[300_000:]),
    "another version that breaks off": Fault(body=OTHER, ignore_range=True, drop_after=700_000),
    "another version without a length": Fault(body=OTHER, ignore_range=True, endless=True),
    "a range far on": Fault(shift=400_000),
    "a range that is a lie": Fault(shift=400_000, lie=True),
    "no file": Fault(status=404),
    "no right": Fault(status=403),
    "no content": Fault(status=204),
    "no end of redirects": Fault(status=302, headers={"Location": "/a.gz"}),
    "a redirect to nowhere": Fault(status=302, headers={"Location": f"http://{'a' * 70}.example/"}),
    "nothing, again and again": Fault(drop_after=0),
    "no time": Fault(status=503),
    "a chunk of fewer bytes than none": Fault(body=b"-5\r\n", endless=True, headers={"Transfer-Encoding": "chunked"}),
}


@pytest.mark.parametrize("size", [None, len(BYTES)], ids=["size unknown", "size known"])
@pytest.mark.parametrize("fault", WORSE.values(), ids=WORSE.keys())
def test_what_came_before_is_kept(server: Server, tmp_path: Path, fault: Fault, size: int | None) -> None:
    server.add("page", PAGE)
    file = _file(server, forever=DROP, size=size)
    with pytest.raises(UserError, match="broke off after 300,000 of"):
        file.fetched_into(tmp_path, attempts=1)
    file = _file(server, forever=fault, size=size)
    for _ in range(2):
        with pytest.raises(UserError) as error:
            file.fetched_into(tmp_path, attempts=2, pause=0.001)
        assert "\n" not in str(error.value)
        assert BYTES[:300_000] in [path.read_bytes() for path in (tmp_path / FOLDER).iterdir()]
    file = _file(server, size=size)
    assert file.fetched_into(tmp_path, pause=0.001).read_bytes() == BYTES
    assert _ranges(server)[-1] == (_rest(300_000), 206)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gz"]


def test_what_came_before_may_be_wrong(server: Server, tmp_path: Path) -> None:
    """The first answer was of something else, and broke off: all of the file is fetched, in two goes and two runs."""
    with pytest.raises(UserError, match="broke off after 300,000 of 1,024,000"):
        _file(server, Fault(body=OTHER, drop_after=300_000)).fetched_into(tmp_path, attempts=1)
    server.requests.clear()
    with pytest.raises(UserError, match="broke off after 500,000 of 1,024,000"):
        _file(server, Fault(), Fault(), Fault(drop_after=500_000)).fetched_into(tmp_path, attempts=1)
    assert _ranges(server) == [(_rest(300_000), 206), (None, 200), (None, 200)]
    server.requests.clear()
    assert _file(server).fetched_into(tmp_path).read_bytes() == BYTES
    assert _ranges(server) == [(_rest(500_000), 206)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.gz"]


def test_a_wrong_byte_in_what_came_before(server: Server, tmp_path: Path) -> None:
    wrong = BYTES[:1000] + b"?" + BYTES[1001:]
    with pytest.raises(UserError):
        _file(server, Fault(body=wrong, drop_after=300_000)).fetched_into(tmp_path, attempts=1)
    server.requests.clear()
    assert _file(server).fetched_into(tmp_path).read_bytes() == BYTES
    assert _ranges(server) == [(_rest(300_000), 206), (None, 200)]


def test_another_address_gives_the_rest(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = server.add("mirror/a.gz", BYTES, [DROP, Fault(status=404)])
    last = server.add("b.gz", BYTES)
    file = _file(server, Fault(body=PAGE, ignore_range=True), mirrors=(last,))
    assert file.fetched_into(tmp_path, mirrors=[server.url("mirror/")], pause=0.001).read_bytes() == BYTES
    assert server.requests == [
        ("mirror/a.gz", None, 200),
        ("mirror/a.gz", _rest(300_000), 404),
        ("a.gz", _rest(300_000), 200),
        ("b.gz", _rest(300_000), 206),
    ]
    told = capsys.readouterr().err.splitlines()
    assert told == [
        f"{first}: broke off after 300,000 of 1,024,000 bytes: again in 0 s",
        f"{first}: the server answers 404 Not Found: trying {file.url}",
        f"{file.url}: sent a web page ('Drive - Virus scan warning'), not the file: trying {last}",
    ]


def test_a_server_that_is_silent_is_asked_last_from_then_on(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running() as gone:
        dead = gone.url("mirror")
    silent: set[str] = set()
    for name in ("a.gz", "b.gz"):
        file = PublicFile(name, server.add(name, BYTES), SHA256)
        file.fetched_into(tmp_path, [dead], attempts=2, pause=0, silent=silent)
    assert capsys.readouterr().err.count(dead) == 2  # attempts at the first file alone
    lost = PublicFile("lost", server.url("lost"), SHA256)
    with pytest.raises(UserError, match=rf"{dead}/lost: cannot be downloaded"):  # it may be back
        lost.fetched_into(tmp_path, [dead], attempts=1, silent=silent)


def test_what_a_server_says_cannot_command_the_terminal(server: Server, tmp_path: Path) -> None:
    page = b"<title>a\x1b[2J\xc2\x9bb\xe2\x80\xaec\nd</title>"
    with pytest.raises(UserError, match=r"sent a web page \('a \[2J b c d'\), not the file"):
        _file(server, Fault(body=page)).fetched_into(tmp_path)


def test_progress_in_a_log(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("resmlp_mt.data.download.PAUSE", 0.0)
    _file(server).fetched_into(tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "a.gz: 4.1 kB of 1.0 MB"
    assert lines[-1] == "a.gz: 1.0 MB of 1.0 MB"


def test_files_of_others_stay(server: Server, tmp_path: Path) -> None:
    others = dict.fromkeys(("a.gz.part", "a.gz.part-version", "a.gz.sha256", "a.gz.other1"), b"mine")
    for name, content in others.items():
        (tmp_path / name).write_bytes(content)
    assert _file(server, DROP).fetched_into(tmp_path, pause=0.001).read_bytes() == BYTES
    (tmp_path / "a.gz").unlink()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == others


def test_a_wrong_file_of_that_name_stays_too(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.gz").write_bytes(b"mine")
    with pytest.raises(UserError):
        _file(server, Fault(status=404)).fetched_into(tmp_path)
    assert (tmp_path / "a.gz").read_bytes() == b"mine"
    assert _file(server).fetched_into(tmp_path).read_bytes() == BYTES
    assert (tmp_path / "a.gz.other1").read_bytes() == b"mine"
    assert "a.gz: had other bytes than the public file: renamed to a.gz.other1" in capsys.readouterr().err


def test_nothing_is_written_through_a_link(server: Server, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "a.gz.1").symlink_to(tmp_path / "mine")
    with pytest.raises(UserError, match=r"a\.gz\.1: is not a regular file"):
        _file(server).fetched_into(tmp_path)
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_a_folder_of_that_name(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.gz").mkdir()
    with pytest.raises(UserError, match=r"a\.gz: is not a file: move it away"):
        _file(server).fetched_into(tmp_path)
    assert server.requests == []


def test_killed_and_run_again(server: Server, tmp_path: Path) -> None:
    file = _file(server, Fault(seconds=0.003))
    first = multiprocessing.get_context("fork").Process(target=file.fetched_into, args=(tmp_path,))
    first.start()
    while file.present_in(tmp_path) < 300_000:
        assert first.is_alive()
        time.sleep(0.01)
    with pytest.raises(UserError, match=r"a\.gz\.1: another run is downloading it"):
        file.fetched_into(tmp_path)
    first.kill()
    first.join()
    there = file.present_in(tmp_path)
    assert not (tmp_path / "a.gz").exists()
    assert file.fetched_into(tmp_path).read_bytes() == BYTES
    assert _ranges(server) == [(None, 200), (_rest(there), 206)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.gz"]


def test_full_disk(server: Server, tmp_path: Path) -> None:
    file = _file(server)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, limit[1]))
    try:
        with pytest.raises(UserError, match=r"/a\.gz\.1: cannot be written: File too large$"):
            file.fetched_into(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert file.fetched_into(tmp_path).read_bytes() == BYTES
    assert _ranges(server) == [(None, 200), (_rest(400_000), 206)]


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
        PublicFile("a.gz", "https://example.org/a.gz", SHA256, size=5).taken_from(tmp_path)


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
