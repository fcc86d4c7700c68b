"""An HTTP server on loopback that serves files from memory, with ranges, and fails as a test asks."""

import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Fault:
    """What is wrong with the answer to one request."""

    status: int | None = None  # instead of 200, 206 and 416; the body is empty
    drop_after: int | None = None  # bytes of the body, then the connection ends
    ignore_range: bool = False
    body: bytes | None = None  # instead of the file
    headers: dict[str, str] = field(default_factory=dict)  # added to the right ones, or instead of them
    seconds: float = 0.0  # pause after every 1,000 bytes


@dataclass
class Server:
    port: int
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, Iterator[Fault]] = field(default_factory=dict)
    requests: list[tuple[str, str | None, int]] = field(default_factory=list)  # name, Range, status

    def add(self, name: str, content: bytes, faults: Iterable[Fault] = ()) -> str:
        self.files[name], self.faults[name] = content, iter(faults)
        return f"http://127.0.0.1:{self.port}/{name}"


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
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and not fault.ignore_range else 0
        if content is None or fault.status:
            status, content = fault.status or 404, b""
        else:
            status = 416 if start >= len(content) and start else 206 if start else 200
        server.requests.append((name, wanted, status))
        body = b"" if status == 416 else content[start:]
        headers = {"Content-Length": str(len(body))}
        if status in (206, 416):
            place = "*" if status == 416 else f"{start}-{len(content) - 1}"
            headers["Content-Range"] = f"bytes {place}/{len(content)}"
        self.send_response(status)
        for header, value in (headers | {"Connection": "close"} | fault.headers).items():
            self.send_header(header, value)
        self.end_headers()
        body = body[: fault.drop_after]
        with suppress(ConnectionError):  # the client closed the connection, or was killed
            step = 1000 if fault.seconds else len(body) or 1
            for begin in range(0, len(body), step):
                self.wfile.write(body[begin : begin + step])
                time.sleep(fault.seconds)

    def log_message(self, *args: object) -> None:
        pass
