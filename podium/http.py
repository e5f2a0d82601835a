"""The HTTP endpoints of a running podium: probes, metrics, the effective configuration (facts 1.8).

Owner: the command that runs the service. Read-only; bound to one address; nothing here schedules.
"""

from __future__ import annotations

from ssl import SSLContext
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from kube.api.core import Pod
from podium.commands.config import effective_document
from podium.explain.endpoints import add_routes
from podium.serving.guard import MAX_BODY, Guard, limits
from podium.serving.more_metrics import HealthChecks, ResourceCollector, Without
from podium.serving.process import Process
from podium.wiring import PODS, Service


class PortError(OSError):
    """The address cannot be bound; the message is one line."""


async def listen(runner: web.AppRunner, host: str, port: int, tls: SSLContext | None = None) -> int:
    """Serve an application; the port that was bound. Raises PortError."""
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
    except OSError as error:
        await runner.cleanup()
        raise PortError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return int(runner.addresses[0][1])


class HttpServer:
    """Serves one Service. Use as an async context manager; raises PortError."""

    def __init__(
        self, service: Service, host: str, port: int, process: Process | None = None, guard: Guard | None = None
    ) -> None:
        self._service = service
        self._host = host
        self._process = process or Process({})
        self._guard = guard
        self._health = HealthChecks()
        self._port = port
        self._runner: web.AppRunner | None = None
        #: the port that was bound (0 asks for any)
        self.port = port

    async def __aenter__(self) -> Self:
        middlewares = [limits()] if self._guard is None else [limits(), self._guard.middleware]
        app = web.Application(middlewares=middlewares, client_max_size=MAX_BODY)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/configz", self._configz)
        app.router.add_get("/metrics/resources", self._resources)
        app.router.add_get("/metrics/slis", self._slis)
        self._process.add_routes(app, self._service.debugger.dump)
        add_routes(app, self._service)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        context = None if self._guard is None else self._guard.certificate.context
        self.port = await listen(self._runner, self._host, self._port, context)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return self._probe("healthz", self._stuck())

    async def _livez(self, request: web.Request) -> web.Response:
        return self._probe("livez", self._stuck())

    async def _readyz(self, request: web.Request) -> web.Response:
        return self._probe("readyz", self._not_ready())

    def _probe(self, kind: str, problem: str) -> web.Response:
        self._health.observe("podium", kind, well=not problem)
        return web.Response(status=500, text=f"{problem}\n") if problem else web.Response(text="ok")

    def _stuck(self) -> str:
        """Once a lease we believe to hold ran out, the process is stuck."""
        elector = self._service.elector
        overdue = elector.expired_for() if elector is not None else 0.0
        return f"leader election: the lease ran out {overdue:.0f} s ago" if overdue > 20.0 else ""

    def _not_ready(self) -> str:
        """Informers and handlers have synced; a replica that lists nothing before it leads is ready to take over."""
        service = self._service
        if service.stopping:
            return "shutting down"
        waits = service.waits_for_lease and (service.elector is None or not service.elector.is_leader)
        if waits or service.synced.is_set():
            return ""
        late = [informer.name for informer in service.factory.informers if not informer.has_synced]
        return f"not synced: {', '.join(late)}"

    async def _metrics(self, request: web.Request) -> web.Response:
        self._service.scheduler.update_gauges()
        return _exposition(Without(self._service.metrics.registry, self._process.disabled_metrics))

    async def _resources(self, request: web.Request) -> web.Response:
        """Of the leader only, as kube-scheduler's: two replicas would count each pod twice."""
        registry = CollectorRegistry()
        service = self._service
        if not service.elects or (service.elector is not None and service.elector.is_leader):
            registry.register(ResourceCollector(service.factory.informer(Pod, PODS).indexer.list))
        return _exposition(registry)

    async def _slis(self, request: web.Request) -> web.Response:
        return _exposition(self._health.registry)

    async def _configz(self, request: web.Request) -> web.Response:
        effective = self._service.effective
        document = {"componentconfig": effective_document(effective.value, effective.known_plugins)}
        return web.Response(body=msgspec.json.encode(document), content_type="application/json")


def _exposition(registry: Collector) -> web.Response:
    return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
