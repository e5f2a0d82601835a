"""The HTTP endpoints of a running podium: probes, metrics, the effective configuration (facts 1.8).

Owner: the command that runs the service. Read-only; bound to one address; nothing here schedules.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from podium.commands.config import effective_document
from podium.explain.endpoints import add_routes
from podium.wiring import Service


class PortError(OSError):
    """The address cannot be bound; the message is one line."""


async def listen(runner: web.AppRunner, host: str, port: int) -> int:
    """Serve an application; the port that was bound. Raises PortError."""
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        await runner.cleanup()
        raise PortError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return int(runner.addresses[0][1])


class HttpServer:
    """Serves one Service. Use as an async context manager; raises PortError."""

    def __init__(self, service: Service, host: str, port: int) -> None:
        self._service = service
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None
        #: the port that was bound (0 asks for any)
        self.port = port

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/livez", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/configz", self._configz)
        add_routes(app, self._service)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        self.port = await listen(self._runner, self._host, self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        """Fails once a lease we believe to hold ran out: then the process is stuck."""
        elector = self._service.elector
        overdue = elector.expired_for() if elector is not None else 0.0
        if overdue > 20.0:
            return web.Response(status=500, text=f"leader election: the lease ran out {overdue:.0f} s ago\n")
        return web.Response(text="ok")

    async def _readyz(self, request: web.Request) -> web.Response:
        """Informers and handlers have synced; a replica that lists nothing before it leads is ready to take over."""
        service = self._service
        if service.stopping:
            return web.Response(status=500, text="shutting down\n")
        waits = service.waits_for_lease and (service.elector is None or not service.elector.is_leader)
        if not waits and not self._service.synced.is_set():
            late = [informer.name for informer in self._service.factory.informers if not informer.has_synced]
            return web.Response(status=500, text=f"not synced: {', '.join(late)}\n")
        return web.Response(text="ok")

    async def _metrics(self, request: web.Request) -> web.Response:
        self._service.scheduler.update_gauges()
        body = generate_latest(self._service.metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _configz(self, request: web.Request) -> web.Response:
        effective = self._service.effective
        document = {"componentconfig": effective_document(effective.value, effective.known_plugins)}
        return web.Response(body=msgspec.json.encode(document), content_type="application/json")
