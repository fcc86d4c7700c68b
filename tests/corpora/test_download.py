"""Downloads from a server that may misbehave, and files from a folder."""

import hashlib
import importlib.util
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from resmlp_mt.corpora.download import PublicFile
from resmlp_mt.errors import UserError

BYTES = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(BYTES).hexdigest()
ROOT = Path(__file__).parents[2]


class _Handler(BaseHTTPRequestHandler):
    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.path)
        if self.path == "/missing" or (self.path == "/busy" and self.seen.count("/busy") < 3):
            self.send_error(404 if self.path == "/missing" else 503)
            return
        body = b"<html>please pay</html>" if self.path == "/wrong" else BYTES
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = self.path == "/cut" or (self.path == "/cut-once" and self.seen.count("/cut-once") < 2)
        self.wfile.write(body[: 1000 if cut else None])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    handler = type("Handler", (_Handler,), {"seen": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def _file(server: ThreadingHTTPServer, path: str) -> PublicFile:
    return PublicFile("a.gz", f"http://127.0.0.1:{server.server_port}/{path}", SHA256)


@pytest.mark.parametrize("path", ["whole", "busy", "cut-once"])
def test_fetched_once(server: ThreadingHTTPServer, tmp_path: Path, path: str) -> None:
    file = _file(server, path)
    assert file.fetched_into(tmp_path / "new", pause=0.01).read_bytes() == BYTES
    requests = len(server.RequestHandlerClass.seen)
    file.fetched_into(tmp_path / "new")
    assert len(server.RequestHandlerClass.seen) == requests
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.gz"]


@pytest.mark.parametrize(
    ("path", "message", "requests"),
    [
        ("missing", "the server answers 404", 1),
        ("wrong", "sent other bytes than expected", 1),
        ("cut", r"(broke off after 1000 of 256000 bytes|IncompleteRead).* \(3 attempts\)", 3),
    ],
)
def test_refused(server: ThreadingHTTPServer, tmp_path: Path, path: str, message: str, requests: int) -> None:
    with pytest.raises(UserError, match=message) as error:
        _file(server, path).fetched_into(tmp_path, attempts=3, pause=0.01)
    assert "\n" not in str(error.value)
    assert len(server.RequestHandlerClass.seen) == requests
    assert list(tmp_path.iterdir()) == []


def test_no_network(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as gone:
        file = _file(gone, "whole")
    with pytest.raises(UserError, match=r"cannot be downloaded: .*refused.*2 attempts.*name a folder"):
        file.fetched_into(tmp_path, attempts=2, pause=0.01)


def test_a_wrong_file_is_fetched_again(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"half")
    assert _file(server, "whole").fetched_into(tmp_path).read_bytes() == BYTES


def test_from_a_folder(tmp_path: Path) -> None:
    file = PublicFile("a.gz", "https://example.org/a.gz", SHA256)
    with pytest.raises(UserError, match=r"a\.gz: no such file"):
        file.taken_from(tmp_path)
    (tmp_path / "a.gz").write_bytes(BYTES[:-1])
    with pytest.raises(UserError, match=r"a\.gz: sha256 is .*example\.org"):
        file.taken_from(tmp_path)
    (tmp_path / "a.gz").write_bytes(BYTES)
    assert file.taken_from(tmp_path) == tmp_path / "a.gz"


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
