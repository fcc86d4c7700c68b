"""A web page and an HTTP interface for a ``Translator``; needs starlette, pydantic and uvicorn."""

import asyncio
import contextlib
import importlib.resources
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio.to_thread
import uvicorn
from pydantic import ValidationError
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
from resmlp_mt.serve.batching import Batcher, Job
from resmlp_mt.serve.libretranslate import LibreTranslate, fields_of, is_form
from resmlp_mt.serve.protocol import Health, Mixing, document, request_model
from resmlp_mt.serve.settings import Access, Limits
from resmlp_mt.translate.translator import Translator

PAGE = {"/": "html", "/page.css": "css", "/page.js": "javascript"}  # address: type of text; each is a file in page/
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Sent with every answer. The page may load nothing from another server, and no other page may show it in a frame."""


class Guard:
    """Refuses requests by Host and Origin (starlette's TrustedHostMiddleware knows no Origin); sends ``HEADERS``."""

    def __init__(self, app: ASGIApp, access: Access):
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._access.refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        app = self._app if refusal is None else _refused(403, refusal)
        await app(scope, receive, sending)


class Service:
    """The HTTP routes and their handlers. Only one thread uses the translator, except for its ``mixing_rows``."""

    def __init__(self, translator: Translator, limits: Limits, access: Access, glossary: Any):
        self._glossary = glossary
        self._translator, self._limits, self._access = translator, limits, access
        self._request = request_model(limits)
        self._libretranslate = LibreTranslate(translator.tokenizer.settings, limits, access)
        self._batcher = Batcher(self._translated, limits)
        pages = importlib.resources.files("resmlp_mt.serve") / "page"
        self._pages = {path: pages.joinpath(path[1:] or "page.html").read_bytes() for path in PAGE}

    def app(self) -> ASGIApp:
        """Return the whole service as an ASGI application."""
        spec = document(self._limits, self._access.token is not None)
        routes = [
            *(Route(path, self._page, methods=["GET"]) for path in PAGE),
            Route("/translate", partial(self._in_time, self._translate), methods=["POST"]),
            Route("/mixing", self._mixing, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            *(Route(path, lambda _: JSONResponse(spec), methods=["GET"]) for path in ("/openapi.json", "/spec")),
            Route("/languages", lambda _: JSONResponse(self._libretranslate.languages()), methods=["GET"]),
            Route("/detect", partial(self._in_time, self._detect), methods=["POST"]),
            Route("/frontend/settings", lambda _: JSONResponse(self._libretranslate.settings()), methods=["GET"]),
        ]
        handlers: Any = {HTTPException: _error, UserError: _error, ValidationError: _error, Exception: _error}
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
        path = request.url.path
        return Response(self._pages[path], media_type=f"text/{PAGE[path]}")

    async def _health(self, request: HTTPRequest) -> Response:
        languages = self._translator.tokenizer.settings
        health = Health(
            source_language=languages.source_language,
            target_language=languages.target_language,
            longest_source=self._translator.cfg.encoder.positions - 1,
            waiting=self._batcher.waiting,
        )
        return JSONResponse(health.model_dump())

    def _mixing(self, request: HTTPRequest) -> Response:
        self._check_token(request)
        text = request.query_params.get("position", "")
        if not re.fullmatch("[0-9]{1,9}", text):
            raise UserError(f"position is {text!r:.40}: give a whole number from 0")
        position = int(text)
        layers = [None if row is None else row.tolist() for row in self._translator.mixing_rows(position)]
        return JSONResponse(Mixing(position=position, layers=layers).model_dump())

    async def _detect(self, request: HTTPRequest) -> Response:
        fields = _with_key(fields_of(*await self._received(request)) or {}, request)
        # the first time, loading py3langid may take longer than a request may
        return JSONResponse(await anyio.to_thread.run_sync(self._libretranslate.detect, fields, abandon_on_cancel=True))

    async def _translate(self, request: HTTPRequest) -> Response:
        """Wait for a job's answer until the client disconnects; then raise ``ClientDisconnect``."""
        job = await self._job(request)

        async def gone() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        tasks = asyncio.ensure_future(self._batcher.answer(job)), asyncio.ensure_future(gone())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[0].done():
                raise ClientDisconnect
            return Response(tasks[0].result(), media_type="application/json")
        finally:
            for task in tasks:
                task.cancel()

    async def _in_time(self, handler: Callable[[HTTPRequest], Awaitable[Response]], request: HTTPRequest) -> Response:
        """Return a handler's answer, or an error: 503 after too long, 499 if nobody waits."""
        try:
            with anyio.fail_after(self._limits.max_seconds):
                return await handler(request)
        except TimeoutError:
            problem = f"no answer after {self._limits.max_seconds} seconds: send less, or try again later"
            raise HTTPException(503, problem, {"Retry-After": "1"}) from None
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it

    def _check_token(self, request: HTTPRequest) -> None:
        if not self._access.has_token(_bearer(request)):
            problem = "send the server's token: Authorization: Bearer TOKEN"
            raise HTTPException(401, problem, {"WWW-Authenticate": "Bearer"})

    async def _received(self, request: HTTPRequest) -> tuple[bytes, str, Mapping[str, str]]:
        """Return the body, which is read only up to its limit, its type, and the fields of the address."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not is_form(kind):
            raise HTTPException(415, "send the body as Content-Type: application/json")
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self._limits.max_bytes:
                raise HTTPException(413, f"the body has more than {self._limits.max_bytes:,} bytes: send several")
        if is_form(kind) and body.startswith(b"{"):
            kind = "application/json"  # curl -d without -H
        return bytes(body), kind, request.query_params

    async def _job(self, request: HTTPRequest) -> Job:
        """Return the job of a request, by our interface or by LibreTranslate's."""
        body, kind, query = await self._received(request)

        def made() -> Job:
            fields = fields_of(body, kind, query)
            if fields is not None:
                return self._libretranslate.job(_with_key(fields, request))
            self._check_token(request)
            return self._request.model_validate_json(body).job(self._translator.tokenizer.settings.source_language)

        # in a thread, as finding the sentences of a document may take a while
        job = await anyio.to_thread.run_sync(made, abandon_on_cancel=True)
        if not job.options.glossary:
            job = replace(job, options=replace(job.options, glossary=self._glossary))
        most = self._limits.max_characters
        if job.characters > most:
            problem = (
                f"{job.name}: {job.characters:,} characters (a sentence counts one more); at most {most:,} are allowed"
            )
            raise HTTPException(413, f"{problem}: send several requests")
        return job

    def _translated(self, jobs: Sequence[Job]) -> list[bytes]:
        """Return the answers to jobs that have the same options."""
        encoded = [
            self._translator.encode(text, job.options.too_long, f"{job.name}[{number}]: ", tagged)
            for job in jobs
            for number, (text, tagged) in enumerate(zip(job.sentences, job.tagged, strict=True))
        ]
        found = iter(self._translator.translate_encoded(encoded, jobs[0].options))
        return [job.answer(list(itertools.islice(found, len(job.sentences)))) for job in jobs]


def _bearer(request: HTTPRequest) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token if kind.lower() == "bearer" else ""


def _with_key(fields: Mapping[str, Any], request: HTTPRequest) -> dict[str, Any]:
    return {**fields, "api_key": fields.get("api_key") or _bearer(request)}


def _refused(status: int, problem: str, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": " ".join(problem.split())}, status, headers)


async def _error(request: HTTPRequest, error: Exception) -> Response:
    """Return an exception as one line of JSON. Starlette raises unexpected ones again, for the server's log."""
    if isinstance(error, HTTPException):
        return _refused(error.status_code, error.detail, error.headers)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        return _refused(400, f"{where:.100}: {first['msg']}: /openapi.json tells what a request is")
    if isinstance(error, UserError):
        return _refused(400, str(error))
    return _refused(500, "something went wrong in the server: its log tells what")


def server_of(translator: Translator, limits: Limits, access: Access, glossary: Any = ()) -> uvicorn.Server:
    """Return a server; its ``run(sockets=[...])`` serves until SIGINT or SIGTERM, and then finishes what it has begun.

    ``glossary``, as in ``Options``, is used for requests without one.
    """
    config = uvicorn.Config(
        Service(translator, limits, access, glossary).app(),
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=limits.max_seconds + 1,
    )
    return uvicorn.Server(config)
