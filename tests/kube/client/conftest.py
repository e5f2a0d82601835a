"""A small API server over real HTTP whose misbehaviour a test writes down line by line.

It keeps objects as plain dicts, counts resourceVersions, serves list (paged), watch, get, create, update, merge patch
and delete, and remembers every request with its loop time. `server.once(…)` replaces the answer to the next matching
request; such replies are used up in the order in which they were written down.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from kube.client.auth import Credentials
from kube.client.rest import Client

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Seen(NamedTuple):
    time: float
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"


class FakeServer:
    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Seen] = []
        self.objects: dict[str, dict[str, Any]] = {}
        self.events: list[tuple[int, str, dict[str, Any]]] = []
        self.version = 100
        self.tokens: set[str] | None = None
        self.page_size = 0
        self._replies: list[tuple[str, bool, str, Reply]] = []
        self._changed = asyncio.Condition()

    # What a test sets up

    def put(self, path: str, name: str, **fields: Any) -> dict[str, Any]:
        """Add or change the object at the collection's path, with an event."""
        known = self.objects.setdefault(path, {})
        self.version += 1
        meta = {"name": name, "uid": f"uid-{name}", **fields.pop("metadata", {})}
        if "/namespaces/" in path or path.endswith("/pods"):
            meta.setdefault("namespace", path.split("/")[-2] if "/namespaces/" in path else "default")
        obj = {"metadata": {**meta, "resourceVersion": str(self.version)}, **fields}
        self.events.append((self.version, "MODIFIED" if name in known else "ADDED", obj))
        known[name] = obj
        return obj

    def remove(self, path: str, name: str, *, silently: bool = False) -> None:
        self.version += 1
        obj = self.objects[path].pop(name)
        if not silently:
            gone = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
            self.events.append((self.version, "DELETED", gone))

    async def announce(self) -> None:
        """Let open watches see what happened."""
        async with self._changed:
            self._changed.notify_all()

    def once(self, method: str, reply: Reply, *, watch: bool = False, path: str = "", times: int = 1) -> None:
        self._replies += [(method, watch, path, reply)] * times

    def seen(self, method: str, *, watch: bool = False) -> list[Seen]:
        return [request for request in self.requests if request.method == method and request.is_watch is watch]

    # How it answers

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(
            Seen(
                asyncio.get_running_loop().time(),
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                json.loads(body) if body else None,
            )
        )
        watch = self.requests[-1].is_watch
        for index, (method, wants_watch, path, reply) in enumerate(self._replies):
            if method == request.method and wants_watch is watch and path in ("", request.path):
                del self._replies[index]
                return await reply(request)
        if self.tokens is not None and request.headers.get("Authorization", "")[7:] not in self.tokens:
            return status(401, "Unauthorized", "Unauthorized")
        if watch:
            return await self._watch(request)
        return getattr(self, f"_{request.method.lower()}")(request.path, body, request)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = await start_stream(request)
        since = int(request.query["resourceVersion"])
        end = asyncio.get_running_loop().time() + int(request.query["timeoutSeconds"])
        while True:
            for version, kind, obj in self.events:
                if version > since:
                    await response.write(line(kind, obj))
                    since = version
            try:
                async with asyncio.timeout_at(end), self._changed:
                    await self._changed.wait()
            except TimeoutError:
                return response

    def _get(self, path: str, _body: bytes, request: web.Request) -> web.Response:
        if path not in self.objects:
            collection, _, name = path.rpartition("/")
            obj = self.objects.get(collection, {}).get(name)
            return web.json_response(obj) if obj is not None else status(404, "NotFound", f"{name} not found")
        items = [*self.objects[path].values()]
        start = int(request.query.get("continue", "0"))
        limit = int(request.query.get("limit", "0")) or len(items)
        meta = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            meta["continue"] = str(start + limit)
        return web.json_response({"metadata": meta, "items": items[start : start + limit] or None})

    def _post(self, path: str, body: bytes, _request: web.Request) -> web.Response:
        if path.endswith("/binding"):
            return web.json_response(
                {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}, status=201
            )
        obj = json.loads(body)
        name = obj["metadata"]["name"]
        if name in self.objects.get(path, {}):
            return status(409, "AlreadyExists", f"{name} already exists")
        meta = obj.pop("metadata")
        return web.json_response(self.put(path, name, metadata=meta, **obj), status=201)

    def _put(self, path: str, body: bytes, _request: web.Request) -> web.Response:
        collection, _, name = path.rpartition("/")
        obj = json.loads(body)
        known = self.objects.get(collection, {}).get(name)
        if known is None:
            return status(404, "NotFound", f"{name} not found")
        if obj["metadata"].get("resourceVersion") != known["metadata"]["resourceVersion"]:
            return status(409, "Conflict", "the object has been modified")
        meta = obj.pop("metadata")
        return web.json_response(self.put(collection, name, metadata=meta, **obj))

    def _patch(self, path: str, body: bytes, _request: web.Request) -> web.Response:
        collection, _, name = path.rpartition("/")
        known = self.objects.get(collection, {}).get(name)
        if known is None:
            return status(404, "NotFound", f"{name} not found")
        known.update(json.loads(body))
        return web.json_response(known)

    def _delete(self, path: str, _body: bytes, _request: web.Request) -> web.Response:
        collection, _, name = path.rpartition("/")
        if name not in self.objects.get(collection, {}):
            return status(404, "NotFound", f"{name} not found")
        self.remove(collection, name)
        return web.json_response({"kind": "Status", "status": "Success"})


def status(
    code: int, reason: str, message: str = "", headers: dict[str, str] | None = None, **more: Any
) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message, **more}
    return web.json_response(body, status=code, headers=headers)


def line(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


async def start_stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    return response


def answers(code: int, reason: str, **more: Any) -> Reply:
    """The reply that fails with a Status."""

    async def reply(_: web.Request) -> web.StreamResponse:
        return status(code, reason, **more)

    return reply


def html(code: int) -> Reply:
    """The reply of a load balancer that has no server to ask."""

    async def reply(_: web.Request) -> web.StreamResponse:
        page = f"<html><head><title>{code} Sorry</title></head>\n<body><h1>{code} Sorry</h1>\n<hr>nginx</body></html>"
        return web.Response(status=code, text=page, content_type="text/html")

    return reply


def streams(*lines: bytes, silent_for: float = 0.0) -> Reply:
    """The reply to a watch that says these lines, then nothing, then ends."""

    async def reply(request: web.Request) -> web.StreamResponse:
        response = await start_stream(request)
        for data in lines:
            await response.write(data)
        await asyncio.sleep(silent_for)
        return response

    return reply


def hangs(seconds: float = 3600.0) -> Reply:
    """The reply that does not come."""

    async def reply(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.Response(status=504)

    return reply


async def drops(request: web.Request) -> web.StreamResponse:
    """The reply of a server that dies while it works."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


@asynccontextmanager
async def serve(server: FakeServer):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"http://127.0.0.1:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


@pytest.fixture
async def server():
    async with serve(FakeServer()) as running:
        yield running


@pytest.fixture
async def client(server: FakeServer):
    async with Client(Credentials(server.url), qps=-1) as connected:
        yield connected


@asynccontextmanager
async def running(*coroutines):
    """Run these beside the test's body, and cancel them when it is done."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
        yield
        for task in tasks:
            task.cancel()
