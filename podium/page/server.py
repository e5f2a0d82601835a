"""The page's own HTTP server: the files, the stream of updates, and the documents of `podium.explain.endpoints`.

Read-only: there is no route but for GET. Its answers forbid the browser everything but files of this very server. On a
loopback address it answers to local names only, so that no web site can reach it through a name of its own.

Owner: the command that runs the service.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import mimetypes
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import resources
from types import TracebackType
from typing import Self

from aiohttp import web
from aiohttp.typedefs import Handler
from yarl import URL

from podium.explain.endpoints import add_routes
from podium.http import listen
from podium.page.hub import Client, Hub
from podium.wiring import Service

MAX_CLIENTS = 64
#: seconds without a message after which the stream says that it is still there
HEARTBEAT = 10.0
#: seconds a browser has to take a message
SEND_TIMEOUT = 30.0
#: milliseconds after which a browser tries again, where the connection breaks
RETRY = 1000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page."""

    body: bytes
    content_type: str
    tag: str


def files() -> dict[str, File]:
    """The page as it was packaged, by name."""
    found = {}
    for entry in (resources.files("podium.page") / "static").iterdir():
        if entry.is_file() and not entry.name.startswith("."):
            body = entry.read_bytes()
            kind = "text/javascript" if entry.name.endswith(".js") else mimetypes.guess_type(entry.name)[0]
            tag = hashlib.sha256(body).hexdigest()[:16]
            found[entry.name] = File(body, kind or "application/octet-stream", tag)
    return found


class PageServer:
    """Serves one Service's page. Use as an async context manager; raises PortError."""

    def __init__(self, service: Service, host: str = "127.0.0.1", port: int = 0) -> None:
        self._service = service
        self._host = host
        self._files = files()
        self._open = AsyncExitStack()
        #: the port that was bound (0 asks for any)
        self.port = port
        self.hub = Hub(service)

    @property
    def url(self) -> str:
        """What to open in a browser on this machine."""
        host = self._host
        if host in ("0.0.0.0", "::"):
            host = "127.0.0.1" if host == "0.0.0.0" else "::1"
        return str(URL.build(scheme="http", host=host, port=self.port, path="/"))

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=1.0)
            self.port = await listen(runner, self._host, self.port)
            opening.push_async_callback(runner.cleanup)
            opening.callback(self.hub.close)
            group = await opening.enter_async_context(asyncio.TaskGroup())
            for task in (self.hub.run(), self.hub.sample()):
                opening.callback(group.create_task(task).cancel)
            self._open = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._open.__aexit__(kind, error, trace)

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._local_names_only])
        app.router.add_get("/", self._index)
        app.router.add_get("/assets/{name}", self._asset)
        app.router.add_get("/stream", self._stream)
        add_routes(app, self._service)
        app.on_response_prepare.append(_add_headers)
        return app

    # --- answers ------------------------------------------------------------------------------------------

    @web.middleware
    async def _local_names_only(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if _is_loopback(self._host) and not _is_loopback(request.url.host or ""):
            raise web.HTTPMisdirectedRequest(text=f"this page is for {self.url} only\n")
        return await handler(request)

    async def _index(self, request: web.Request) -> web.Response:
        return _file(request, self._files["index.html"])

    async def _asset(self, request: web.Request) -> web.Response:
        found = self._files.get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound(text="there is no such file\n")
        return _file(request, found)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events. A browser says what it saw last in a header, a page that begins anew in the address."""
        if self.hub.clients >= MAX_CLIENTS:
            raise web.HTTPServiceUnavailable(text=f"{MAX_CLIENTS} browsers are looking\n", headers={"Retry-After": "5"})
        last = request.headers.get("Last-Event-ID", "") or request.query.get("after", "")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        if request.method == "HEAD":
            return response
        client = self.hub.join(last)
        try:
            await response.prepare(request)
            await _send(response, b"retry: %d\n\n" % RETRY)
            while message := await _next(client):
                await _send(response, message)
        except (ConnectionError, TimeoutError):
            pass  # the browser is gone, or stuck
        finally:
            self.hub.leave(client)
        return response


async def _next(client: Client) -> bytes:
    """The next message, or a sign of life where there is none for a while."""
    try:
        async with asyncio.timeout(HEARTBEAT):
            return await client.next()
    except TimeoutError:
        return b"event: beat\ndata: 0\n\n"


async def _send(response: web.StreamResponse, message: bytes) -> None:
    async with asyncio.timeout(SEND_TIMEOUT):
        await response.write(message)


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", "no-cache")


def _file(request: web.Request, file: File) -> web.Response:
    tag = f'"{file.tag}"'
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers={"ETag": tag})
    return web.Response(body=file.body, content_type=file.content_type, charset="utf-8", headers={"ETag": tag})


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
