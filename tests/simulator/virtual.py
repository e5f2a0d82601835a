"""What tests of the embedded cluster in virtual time share: a clock, a scheduler without rules, and workloads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from simulator.apiserver import ApiServer
from simulator.apiserver.watch_cache import Event, Key, View

Object = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)


def virtual_clock() -> Callable[[], datetime]:
    """The time of the event loop as a time of day."""

    def clock() -> datetime:
        try:
            return START + timedelta(seconds=asyncio.get_running_loop().time())
        except RuntimeError:
            return START

    return clock


class AnyNodeScheduler:
    """Binds each pod to the ready, untainted node with the fewest pods, honouring only a pin by name."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._waiting: dict[Key, None] = {}
        self._counts: dict[str, int] = {}
        self._armed = False

    def start(self) -> None:
        """Follow the store."""
        store = self._server.store
        for revision in store.collection("pods").seen(View()):
            self._waiting[revision.key] = None
        self._unfollow = [store.listen("pods", self._on_pod), store.listen("nodes", lambda event: self._arm())]
        self._arm()

    def stop(self) -> None:
        """Bind no more."""
        for unfollow in self._unfollow:
            unfollow()
        self._armed = True

    def _on_pod(self, event: Event) -> None:
        spec = event.revision.obj["spec"]
        if event.type == "ADDED" and not spec.get("nodeName"):
            self._waiting[event.revision.key] = None
            self._arm()
        elif event.type == "DELETED" and spec.get("nodeName"):
            self._counts[spec["nodeName"]] = self._counts.get(spec["nodeName"], 1) - 1

    def _arm(self) -> None:
        if not self._armed and self._waiting:
            self._armed = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        self._armed = False
        pods, nodes = self._server.store.collection("pods"), self._server.store.collection("nodes")
        free = [r.obj["metadata"]["name"] for r in nodes.seen(View()) if not r.obj["spec"].get("taints")]
        for key in list(self._waiting):
            revision = pods.get(key)
            if revision is None or "deletionTimestamp" in revision.obj["metadata"]:
                del self._waiting[key]
                continue
            if revision.obj["spec"].get("schedulingGates"):
                continue
            allowed = [name for name in _pinned(revision.obj) or free if name in free]
            if allowed:
                node = min(allowed, key=lambda name: (self._counts.get(name, 0), name))
                self._counts[node] = self._counts.get(node, 0) + 1
                del self._waiting[key]
                self._server.bind(key[1], node, key[0])


def _pinned(pod: Object) -> list[str]:
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    return [
        name
        for term in required.get("nodeSelectorTerms") or ()
        for match in term.get("matchFields") or ()
        for name in match["values"]
    ]


# --- workloads -----------------------------------------------------------------------------------------------------


def template(app: str, image: str = "app:1", annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod template."""
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": "100m"}}}
    metadata = {"labels": {"app": app}, **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def workload(kind: str, name: str, pod: Object | None = None, **spec: Any) -> Object:
    """A workload of the apps group that selects by `app: NAME`."""
    selector = {"matchLabels": {"app": name}}
    body = {"selector": selector, "template": pod or template(name), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": body}


def job(name: str, pod: Object | None = None, **spec: Any) -> Object:
    """A Job."""
    made = pod or template(name, annotations={"podium.io/run-seconds": "30"}, restartPolicy="Never")
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": made, **spec}}


def names(server: ApiServer, resource: str = "pods", labels: str = "") -> list[str]:
    """The names of all objects of a resource."""
    return [obj["metadata"]["name"] for obj in server.list(resource, labels=labels)]


def images(server: ApiServer, labels: str = "") -> list[str]:
    """The image of each pod that is not on its way out, sorted."""
    pods = (pod for pod in server.list("pods", labels=labels) if "deletionTimestamp" not in pod["metadata"])
    return sorted(pod["spec"]["containers"][0]["image"] for pod in pods)


def set_image(server: ApiServer, resource: str, name: str, image: str) -> None:
    """Change a workload's template."""
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
    server.patch(resource, name, patch)
