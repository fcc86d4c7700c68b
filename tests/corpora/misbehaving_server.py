"""An HTTP server on loopback that serves files from memory, with ranges, and misbehaves as told."""

import hashlib
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Fault:
    """How one request is answered wrongly."""

    status: int | None = None  # an error
    drop_after: int | None = None  # bytes of the body, then the connection ends
    ignore_range: bool = False
    body: bytes | None = None  # instead of the file
    length: int | None = None  # Content-Length, whatever the body is
    shift: int = 0  # start so many bytes away from what was asked for
    blind: bool = False  # If-Range does not count
    seconds: float = 0.0  # after every 1,000 bytes


@dataclass
class Server:
    port: int
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, Iterator[Fault]] = field(default_factory=dict)
    requests: list[tuple[str, str | None, int]] = field(default_factory=list)  # name, Range, status
    tags: bool = True  # send ETag

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    def add(self, name: str, content: bytes, faults: Iterable[Fault] = ()) -> str:
        self.files[name], self.faults[name] = content, iter(faults)
        return self.url(name)


@contextmanager
def running() -> Iterator[Server]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as http:
        http.daemon_threads = True
        http.settings = Server(http.server_port)
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield http.settings
        http.shutdown()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server.settings
        name = self.path[1:]
        fault = next(server.faults.get(name, iter(())), Fault())
        wanted = self.headers.get("Range")
        content = server.files.get(name) if fault.body is None else fault.body
        if content is None or fault.status:
            server.requests.append((name, wanted, fault.status or 404))
            self.send_error(fault.status or 404)
            return
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and not fault.ignore_range else 0
        if self.headers.get("If-Range", tag) != tag and not fault.blind:
            start = 0
        status = 416 if start >= len(content) and start else 206 if start else 200
        server.requests.append((name, wanted, status))
        body = b"" if status == 416 else content[start + fault.shift :]
        self.send_response(status)
        if status != 200:
            first = "*" if status == 416 else f"{start + fault.shift}-{len(content) - 1}"
            self.send_header("Content-Range", f"bytes {first}/{len(content)}")
        if server.tags:
            self.send_header("ETag", tag)
        self.send_header("Content-Length", str(len(body) if fault.length is None else fault.length))
        self.end_headers()
        body = body[: fault.drop_after]
        with suppress(ConnectionError):  # of a client that had enough, or was killed
            step = 1000 if fault.seconds else len(body) or 1
            for begin in range(0, len(body), step):
                self.wfile.write(body[begin : begin + step])
                time.sleep(fault.seconds)

    def log_message(self, *args: object) -> None:
        pass
