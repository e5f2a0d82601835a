"""The endpoints that answer why: /explain, /queue, /nodes and /decisions, as JSON (docs/explain.md has the schema).

Added to the service's HTTP server. Read-only. An explanation is worked out in pieces, between which scheduling goes on;
one at a time, so that many questions are no more of a burden than one.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web

from kube.api.core import Pod
from podium.explain.amounts import amount
from podium.explain.documents import Explanation, Explanations
from podium.explain.explain import explaining, time_text
from podium.explain.pieces import in_slices
from podium.explain.reasons import ReasonCollector, last_messages, message_of, reasons_of
from podium.explain.sources import no_such_pod
from podium.explain.view import Cluster
from podium.wiring import PODS, Service
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo

#: pods explained by one request without a name
MAX_EXPLAINED = 100
#: seconds that a search for victims may take, and explanations that may wait for their turn
PATIENCE = 0.5
MAX_WAITING = 32
#: items of other lists, where ?limit= does not say otherwise
DEFAULT_LIMIT = 1_000
MAX_LIMIT = 100_000


def add_routes(app: web.Application, service: Service) -> None:
    """Serve them, and export the reasons of pending pods as a metric."""
    endpoints = Endpoints(service)
    app.router.add_get("/explain", endpoints.explain_pending)
    app.router.add_get("/explain/{namespace}/{name}", endpoints.explain_pod)
    app.router.add_get("/queue", endpoints.queue)
    app.router.add_get("/nodes", endpoints.nodes)
    app.router.add_get("/nodes/{name}", endpoints.node)
    app.router.add_get("/decisions", endpoints.decisions)
    # A second server of the same service would export it a second time.
    with suppress(ValueError):
        service.metrics.registry.register(ReasonCollector(lambda: service.scheduler))


class Endpoints:
    """Owner: the HTTP server of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._turn = asyncio.Lock()
        self._waiting = 0

    def _cluster(self) -> Cluster:
        scheduler = self._service.scheduler
        return Cluster(
            cache=scheduler.cache,
            frameworks=scheduler.frameworks,
            profile_of=lambda pod: pod.spec.scheduler_name if pod.spec.scheduler_name in scheduler.frameworks else None,
            queue=scheduler.queue,
            decisions=scheduler.decisions,
            asks=True,
            now=time.time,
        )

    async def explain_pod(self, request: web.Request) -> web.Response:
        """Why one pod is where it is; 404 where there is none, with the name that was perhaps meant."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        indexer = self._service.factory.informer(Pod, PODS).indexer
        pod = indexer.get_by(namespace, name)
        if pod is None:
            keys = [each.key for each in indexer.list()]
            return web.Response(status=404, text=no_such_pod(namespace, name, keys) + "\n")
        return _json(await self._explained(pod))

    async def _explained(self, pod: Pod) -> Explanation:
        if self._waiting >= MAX_WAITING:
            text = f"{MAX_WAITING} questions wait for an answer\n"
            raise web.HTTPServiceUnavailable(text=text, headers={"Retry-After": "2"})
        self._waiting += 1
        try:
            async with self._turn:
                return await in_slices(explaining(self._cluster(), pod, PATIENCE))
        finally:
            self._waiting -= 1

    async def explain_pending(self, request: web.Request) -> web.Response:
        """The same for every pending pod, of the first pools first; `more` counts those left out."""
        pending = self._service.scheduler.queue.pending_pods()
        explained = []
        for item, _ in pending[:MAX_EXPLAINED]:
            explained.append(await self._explained(item.pod))
        return _json(Explanations(pods=tuple(explained), more=max(len(pending) - MAX_EXPLAINED, 0)))

    async def queue(self, request: web.Request) -> web.Response:
        """Every pending pod, its pool and why it is still there."""
        scheduler, limit = self._service.scheduler, _limit(request)
        pending = scheduler.queue.pending_pods()
        messages = last_messages(scheduler.decisions)
        pods = [self._queued(item, pool, message_of(item, pool, messages)) for item, pool in pending[:limit]]
        return _json({"lengths": scheduler.queue.lengths(), "pods": pods, "more": max(len(pending) - limit, 0)})

    def _queued(self, item: QueuedPodInfo, pool: str, message: str) -> dict[str, Any]:
        clock = self._service.scheduler.queue.now()
        pod = item.pod
        return {
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "profile": pod.spec.scheduler_name,
            "priority": item.pod_info.priority,
            "pool": pool,
            "attempts": item.attempts,
            "waiting": round(max(clock - item.timestamp, 0.0), 3),
            "backoffUntil": time_text(time.time() + item.backoff_expiration - clock) if pool == "backoff" else None,
            "nominatedNode": self._service.scheduler.queue.nominator.node_of(item.uid) or None,
            "refusedBy": sorted(item.rejectors) or ([item.gating_plugin] if item.gating_plugin else []),
            "reasons": [reason for reason, _ in reasons_of(message)],
            "message": message,
        }

    async def nodes(self, request: web.Request) -> web.Response:
        """Every node and how full it is."""
        limit = _limit(request)
        infos = list(self._service.snapshot.node_infos())
        infos.sort(key=lambda info: info.name)
        return _json({"nodes": [node_document(i) for i in infos[:limit]], "more": max(len(infos) - limit, 0)})

    async def node(self, request: web.Request) -> web.Response:
        """One node and the pods on it, the most important first."""
        name = request.match_info["name"]
        info = self._service.cache.nodes.get(name)
        if info is None or info.node is None:
            return web.Response(status=404, text=f"there is no node {name}\n")
        pods = sorted(info.pods.values(), key=lambda pod: (-pod.priority, pod.key))
        return _json({**node_document(info), "podList": [_pod_document(pod) for pod in pods]})

    async def decisions(self, request: web.Request) -> web.Response:
        """The newest decisions first."""
        limit = _limit(request)
        records = [*self._service.scheduler.decisions]
        return _json({"decisions": [_decision(d) for d in records[:limit]], "more": max(len(records) - limit, 0)})


def node_document(info: NodeInfo) -> dict[str, Any]:
    """One node; amounts as numbers too (milliCPU, bytes), so that nobody has to parse quantities."""
    node = info.node
    labels = info.labels
    resources = {
        name: {
            "allocatable": amount(name, have),
            "requested": amount(name, info.requested.get(name, 0)),
            "share": round(info.requested.get(name, 0) / have, 4) if have else 0.0,
        }
        for name, have in info.allocatable.items()
    }
    return {
        "name": info.name,
        "zone": labels.get("topology.kubernetes.io/zone", ""),
        "pods": len(info.pods),
        "unschedulable": node.spec.unschedulable if node is not None else True,
        "taints": [f"{t.key}={t.value}:{t.effect}" if t.value else f"{t.key}:{t.effect}" for t in node.spec.taints]
        if node is not None
        else [],
        "resources": resources,
    }


def _pod_document(pod: PodInfo) -> dict[str, Any]:
    return {
        "namespace": pod.pod.metadata.namespace,
        "name": pod.pod.metadata.name,
        "priority": pod.priority,
        "profile": pod.pod.spec.scheduler_name,
        "requests": {name: amount(name, number) for name, number in pod.requests.items()},
    }


def _decision(record: Any) -> dict[str, Any]:
    return {
        "time": time_text(record.time),
        "namespace": record.namespace,
        "name": record.name,
        "uid": record.uid,
        "profile": record.profile,
        "attempt": record.attempt,
        "result": record.result,
        "node": record.node or None,
        "feasible": record.feasible,
        "nodes": record.nodes,
        "seconds": round(record.seconds, 6),
        "message": record.message,
        "nominatedNode": record.nominated_node or None,
        "victims": list(record.victims),
    }


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", "")
    return min(int(text), MAX_LIMIT) if text.isdecimal() else DEFAULT_LIMIT


def _json(document: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), content_type="application/json")
