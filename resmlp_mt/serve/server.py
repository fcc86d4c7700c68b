"""A page and an interface over HTTP to a ``Translator``; needs starlette and uvicorn."""

import asyncio
import contextlib
import hmac
import importlib.resources
import json
import math
import re
import socket
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HTTPRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from resmlp_mt.common.errors import UserError
from resmlp_mt.serve.batching import Batcher, FullError, Rules
from resmlp_mt.serve.protocol import Limits, Request, TooLargeError, document, read_request, result
from resmlp_mt.translate.translator import Translator

PAGE = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Of every answer. The page may load nothing from another server, and no other page may hold it in a frame."""
THIS_MACHINE = "127.0.0.1", "localhost", "[::1]"
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:@/\[\]\s]+)(:\d+)?")  # of a Host header
NOBODY_READS = 499  # the status of an answer whose client has gone


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Attributes:
        hosts: names of the server, in lower case, as the Host header has them without the port. A page of another site
            whose name suddenly leads to this machine (DNS rebinding) sends another one
        token: to be sent as ``Authorization: Bearer TOKEN`` with what needs the model; None: everybody may ask
        origins: other sites whose pages may ask, such as ``https://example.org``
    """

    hosts: frozenset[str] = frozenset(THIS_MACHINE)
    token: str | None = None
    origins: tuple[str, ...] = ()

    def refusal(self, headers: Headers) -> str | None:
        """Why a request is refused, if it is."""
        host = HOST.fullmatch(headers.get("host", ""))
        if host is None or host[1].lower() not in self.hosts:
            return f"Host {headers.get('host', '')!r:.80} is no name of this server: start it with --allow-host"
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins and origin.partition("://")[2] != headers["host"]:
            return f"pages of {origin!r:.80} may not ask this server: start it with --allow-origin"
        return None

    def check_token(self, headers: Headers) -> None:
        """Raise an HTTPException unless a request has the token."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if self.token is not None and (
            kind.lower() != "bearer" or not hmac.compare_digest(token.encode(), self.token.encode())
        ):
            raise HTTPException(
                401, "send the server's token: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
            )


class Guard:
    """Refuses who may not ask, and gives every answer its ``HEADERS``."""

    def __init__(self, app: ASGIApp, access: Access):
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._access.refusal(Headers(scope=scope))
        app = self._app if refusal is None else _refused(403, refusal)
        await app(scope, receive, sending)


class Service:
    """What is behind the addresses.

    Args:
        translator: used by one thread alone, but for its ``mixing_rows``
    """

    def __init__(self, translator: Translator, limits: Limits, access: Access):
        self._translator, self._limits, self._access = translator, limits, access
        rules = Rules(limits.waiting, limits.longest_wait, limits.characters)
        self._batcher = Batcher[Request, bytes](
            self._translated, lambda asked: asked.options, lambda asked: asked.characters, rules
        )
        pages = importlib.resources.files("resmlp_mt.serve") / "page"
        self._pages = {path: (pages.joinpath(name).read_bytes(), kind) for path, (name, kind) in PAGE.items()}

    def app(self) -> ASGIApp:
        """The whole of it, for an ASGI server."""
        routes = [
            *(Route(path, self._page, methods=["GET"]) for path in PAGE),
            Route("/translate", self._translate, methods=["POST"]),
            Route("/mixing", self._mixing, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/openapi.json", self._document, methods=["GET"]),
        ]
        handlers: Any = {HTTPException: _told, UserError: _told, Exception: _told}
        shared = Middleware(
            CORSMiddleware,
            allow_origins=self._access.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
        app = Starlette(routes=routes, exception_handlers=handlers, middleware=[shared], lifespan=self._lifespan)
        return Guard(app, self._access)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        running = asyncio.create_task(self._batcher.run())
        yield
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    async def _page(self, request: HTTPRequest) -> Response:
        content, kind = self._pages[request.url.path]
        return Response(content, media_type=kind)

    async def _document(self, request: HTTPRequest) -> Response:
        return JSONResponse(document(self._limits, self._access.token is not None))

    async def _health(self, request: HTTPRequest) -> Response:
        languages = self._translator.tokenizer.settings
        values = {
            "status": "ok",
            "source_language": languages.source_language,
            "target_language": languages.target_language,
            "longest_source": self._translator.model.encoder.limit - 1,
            "waiting": self._batcher.waiting,
        }
        return JSONResponse(values)

    async def _mixing(self, request: HTTPRequest) -> Response:
        self._access.check_token(request.headers)
        text = request.query_params.get("position", "")
        if not re.fullmatch("[0-9]{1,9}", text):
            raise UserError(f"position is {text!r:.40}: give a whole number from 0")
        position = int(text)
        layers = [
            None
            if matrices is None
            else [[round(weight, 4) for weight in row] for row in matrices[:, position].tolist()]
            for matrices in self._translator.mixing_rows(position + 1)
        ]
        return JSONResponse({"position": position, "layers": layers})

    async def _translate(self, request: HTTPRequest) -> Response:
        self._access.check_token(request.headers)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "send the body as Content-Type: application/json")
        try:
            with anyio.fail_after(self._limits.seconds):
                asked = read_request(await self._body(request), self._limits)
                answer = await _while_connected(request.receive, self._batcher.answer(asked))
        except TimeoutError:
            problem = f"no answer after {self._limits.seconds:g} seconds: send less, or try again later"
            raise HTTPException(503, problem, {"Retry-After": "1"}) from None
        except FullError:
            problem = f"{self._limits.waiting} requests are waiting: try again later"
            raise HTTPException(429, problem, {"Retry-After": "1"}) from None
        except ClientDisconnect:
            return Response(status_code=NOBODY_READS)
        return Response(answer, media_type="application/json")

    async def _body(self, request: HTTPRequest) -> bytes:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self._limits.bytes:
                raise TooLargeError(f"the body has more than {self._limits.bytes:,} bytes: send several requests")
        return bytes(body)

    def _translated(self, requests: Sequence[Request]) -> list[bytes | Exception]:
        """The answers to requests of the same options."""
        options = requests[0].options
        encoded: list[Any] = []
        for asked in requests:
            texts = []
            try:
                for number, text in enumerate(asked.texts):
                    texts.append(self._translator.encode(text, options.too_long))
            except UserError as error:
                encoded.append(UserError(f"texts[{number}]: {error}"))
            else:
                encoded.append(texts)
        together = [text for texts in encoded if isinstance(texts, list) for text in texts]
        found = iter(self._translator.translate_encoded(together, options))
        return [
            json.dumps({"results": [result(next(found)) for _ in texts]}, ensure_ascii=False).encode()
            if isinstance(texts, list)
            else texts
            for texts in encoded
        ]


async def _while_connected(receive: Receive, answer: Coroutine[Any, Any, bytes]) -> bytes:
    """Wait for an answer.

    Raises:
        ClientDisconnect: the client has gone before; the answer's coroutine is cancelled
    """

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = asyncio.ensure_future(answer), asyncio.ensure_future(gone())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise ClientDisconnect
        return tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()


def _refused(status: int, problem: str, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": " ".join(problem.split())}, status, headers)


async def _told(request: HTTPRequest, error: Exception) -> Response:
    """An exception as one line of JSON. Starlette passes on those that are nobody's mistake, for the server's log."""
    if isinstance(error, HTTPException):
        return _refused(error.status_code, error.detail, error.headers)
    if isinstance(error, UserError):
        return _refused(413 if isinstance(error, TooLargeError) else 400, str(error))
    return _refused(500, "something went wrong in the server: its log tells what")


def listening(host: str, port: int) -> socket.socket:
    """A socket that is bound to an address and listens.

    Args:
        port: 0: one that is free

    Raises:
        UserError: there is no such address, or it is taken
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]
        raise UserError(f"--host {host} --port {port}: {reason}: choose another port or host") from error
    # for its connections: else an answer on one that is kept open waits 40 ms until its head is acknowledged
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def server_of(translator: Translator, limits: Limits, access: Access) -> uvicorn.Server:
    """A server; its ``run(sockets=[...])`` serves until SIGINT or SIGTERM, and then ends what it has begun."""
    config = uvicorn.Config(
        Service(translator, limits, access).app(),
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(limits.seconds) + 1,
    )
    return uvicorn.Server(config)
