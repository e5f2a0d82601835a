"""A running podium against an embedded API server, for tests: real HTTP, and nothing of podium replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from config.defaults import default_configuration
from config.feature_gates import DEFAULT_GATES
from config.load import loads
from config.types import Configuration
from kube.client.auth import Credentials
from kube.client.rest import Client
from plugins.registry import IN_TREE, Registry
from podium.configuration import Effective
from podium.wiring import Options, Service
from scheduler.framework.plugin import Plugin
from simulator.apiserver import ApiServer

Object = dict[str, Any]


def effective(configuration: Configuration | None = None, *plugins: type[Plugin]) -> Effective:
    """The default configuration, or the given one; with plugins of the test's own as if they were built in."""
    registry = Registry({**IN_TREE, **{plugin.name: plugin for plugin in plugins}})
    return Effective(configuration or default_configuration(DEFAULT_GATES), DEFAULT_GATES.as_dict(), registry)


def configured(text: str, *plugins: type[Plugin]) -> Effective:
    """The effective configuration of a file's text."""
    registry = Registry({**IN_TREE, **{plugin.name: plugin for plugin in plugins}})
    return effective(loads(text, known_plugins=registry).configuration, *plugins)


def with_plugins(*plugins: type[Plugin]) -> Effective:
    """The default profile with these plugins enabled at all their extension points."""
    enabled = ", ".join(f"{{name: {plugin.name}}}" for plugin in plugins)
    text = f"""
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles: [{{schedulerName: podium, plugins: {{multiPoint: {{enabled: [{enabled}]}}}}}}]
    """
    return configured(text, *plugins)


@asynccontextmanager
async def podium(
    server: ApiServer, configuration: Effective | None = None, *, leader_elect: bool = False, identity: str = ""
) -> AsyncIterator[Service]:
    """A service that has synced; stopped cleanly at the end, after which cache and queue must be consistent."""
    options = Options(leader_elect=leader_elect, seed=0, identity=identity)
    async with Client(Credentials(server.url), qps=-1, burst=0) as client:
        service = Service(client, configuration or effective(), options)
        await service.build()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(service.run())
            await service.synced.wait()
            yield service
            service.stop()
            await running
        check(service)


def check(service: Service) -> None:
    """Cache and queue are consistent in themselves, with each other, and with what the informers hold."""
    assert service.cache.validate() == []
    assert service.scheduler.queue.validate() == []
    assert service.debugger.compare().lines() == []
    assert service.metrics.scheduled_after_flush._value.get() == 0, "a hint is missing"


async def until(condition: Callable[[], bool], what: str, timeout: float = 600.0) -> None:
    """Wait until something holds; says what was awaited if it never does."""
    try:
        async with asyncio.timeout(timeout):
            step = 0.02
            while not condition():
                await asyncio.sleep(step)
                step = min(step * 1.02, timeout / 200)
    except TimeoutError:
        raise AssertionError(f"never happened: {what}") from None


def node_of(server: ApiServer, name: str, namespace: str = "default") -> str:
    """Where a pod is, "" for nowhere."""
    return str(server.get("pods", name, namespace)["spec"].get("nodeName", ""))


def condition(server: ApiServer, name: str, kind: str = "PodScheduled") -> Object:
    """A condition of a pod, {} where it has none."""
    conditions = server.get("pods", name)["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


def events_of(server: ApiServer, name: str) -> list[Object]:
    """The events about a pod."""
    return [e for e in server.list("events.events.k8s.io") if e["regarding"]["name"] == name]
