"""An hour in the life of a busy cluster, for the soak: Jobs of pods come, run and go, nodes beat and are replaced.

Nothing that appears is ever called by an earlier name, as in a cluster that is used: what podium remembers of names,
labels and shapes must go when they do. Drives an embedded API server in process; podium is not its business.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kube.api.meta import format_time
from simulator.apiserver import ApiServer
from simulator.apiserver.deletion import DeleteOptions
from simulator.apiserver.watch_cache import Event, View

Object = dict[str, Any]
#: seconds after which the server has forgotten its Event objects: an hour in a cluster, and never in the embedded one
EVENTS_LAST = 20.0


@dataclass(frozen=True)
class Pace:
    """How much happens in a second of the cluster's time."""

    nodes: int = 500
    #: seconds between two heartbeats of a node
    heartbeat: float = 10.0
    #: pods that come, and how long they stay once they run
    pods: float = 45.0
    life: float = 60.0
    #: seconds between two nodes that are replaced, and between two pods that fit nowhere
    replace: float = 20.0
    too_big: float = 5.0
    #: of so many nodes one has a device, which is a resource of its own name
    devices: int = 50


class Churn:
    """The hour. Owner: the test that runs it."""

    def __init__(self, server: ApiServer, pace: Pace, seed: int = 0) -> None:
        self._server = server
        self._pace = pace
        self._random = random.Random(seed)
        self._events = server.resource("events.events.k8s.io")
        self._nodes: list[str] = []
        self._made = 0
        #: pods that were bound since the last second, and (when they end, name) of those that run
        self._bound: list[str] = []
        self._running: deque[tuple[float, str]] = deque()
        self._hopeless: deque[tuple[float, str]] = deque()
        #: changes of pods and nodes, each of which podium's watches tell it of
        self.events = 0
        self.pods = 0
        self.replaced = 0
        server.store.listen("pods", self._on_pod)
        server.store.listen("nodes", self._on_node)

    def furnish(self) -> None:
        """The nodes of the first moment."""
        for _ in range(self._pace.nodes):
            self._add_node()

    async def until(self, over: Callable[[], bool]) -> None:
        """Live on, a second at a time."""
        now = asyncio.get_running_loop().time
        while not over():
            second = now()
            self._kubelets(second)
            self._heartbeats()
            self._jobs()
            if self._random.random() < 1 / self._pace.too_big:
                self._hopeless.append((second + self._pace.life, self._add_pod("huge", cpu="1000")))
            if self._random.random() < 1 / EVENTS_LAST:
                self._server.verbs.delete_collection(self._events, View(), DeleteOptions())
            if self._random.random() < 1 / self._pace.replace:
                self._replace_a_node()
            await asyncio.sleep(max(0.0, second + 1.0 - now()))

    def end(self) -> None:
        """Everybody leaves."""
        for each in self._server.list("pods"):
            self._server.delete("pods", each["metadata"]["name"], grace_seconds=0)
        self._bound.clear()
        self._running.clear()

    # --- what happens ---------------------------------------------------------------------------------------------

    def _on_pod(self, event: Event) -> None:
        self.events += 1
        before = event.before.obj if event.before is not None else None
        after = event.revision.obj
        if before is not None and not before["spec"].get("nodeName") and after["spec"].get("nodeName"):
            self._bound.append(after["metadata"]["name"])

    def _on_node(self, event: Event) -> None:
        self.events += 1

    def _name(self, prefix: str) -> str:
        self._made += 1
        return f"{prefix}-{self._made}"

    def _add_node(self) -> None:
        name = self._name("node")
        zone = f"zone-{self._random.randrange(3)}"
        capacity = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        if self._made % self._pace.devices == 0:
            capacity[f"devices.example/{name}"] = "1"
        images = [{"names": [f"registry.example/{name}:{i}"], "sizeBytes": 50 << 20} for i in range(5)]
        self._server.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {
                        "kubernetes.io/hostname": name,
                        "topology.kubernetes.io/zone": zone,
                        "instance": f"i-{name}",
                    },
                },
                "spec": {"providerID": f"cloud://{name}"},
                "status": {"capacity": capacity, "allocatable": capacity, "conditions": [_ready(0)], "images": images},
            }
        )
        self._nodes.append(name)

    def _heartbeats(self) -> None:
        for name in self._random.sample(self._nodes, round(len(self._nodes) / self._pace.heartbeat)):
            self._server.patch("nodes", name, {"status": {"conditions": [_ready(self.events)]}}, status=True)

    def _replace_a_node(self) -> None:
        """As an autoscaler does it: a taint with the time in it first."""
        name = self._nodes.pop(self._random.randrange(len(self._nodes)))
        taint = {"key": "ToBeDeletedByClusterAutoscaler", "value": str(self.events), "effect": "NoSchedule"}
        self._server.patch("nodes", name, {"spec": {"taints": [taint]}})
        for each in self._server.list("pods", fields=f"spec.nodeName={name}"):
            self._delete(each["metadata"]["name"])
        self._server.delete("nodes", name)
        self._add_node()
        self.replaced += 1

    def _jobs(self) -> None:
        """Of a handful of kinds, each with labels that only its own pods have."""
        wanted = self._pace.pods
        while wanted > 0 and self._random.random() < wanted:
            size = self._random.randint(1, 20)
            wanted -= size
            job = self._name("job")
            spec = self._random.choice((_plain, _spread, _apart, _zoned))(job)
            for _ in range(size):
                self._add_pod(job, **spec)

    def _add_pod(self, job: str, cpu: str = "100m", **spec: Any) -> str:
        name = self._name(job)
        self.pods += 1
        container = {
            "name": "main",
            "image": f"registry.example/{job}:1",
            "resources": {"requests": {"cpu": cpu, "memory": f"{self._random.randint(1, 4096)}Mi"}},
        }
        labels = {"job-name": job, "controller-uid": f"uid-of-{job}", "pod-name": name}
        metadata = {"name": name, "namespace": "default", "labels": labels}
        spec = {"schedulerName": "podium", "containers": [container], **spec}
        self._server.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return name

    def _kubelets(self, now: float) -> None:
        for name in self._bound:
            running = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
            if self._patch_status(name, running):
                self._running.append((now + self._pace.life * self._random.uniform(0.5, 1.5), name))
        self._bound.clear()
        for pods in (self._running, self._hopeless):
            while pods and pods[0][0] <= now:
                name = pods.popleft()[1]
                if pods is self._running and self._random.random() < 0.5:
                    self._patch_status(name, {"phase": "Succeeded"})
                self._delete(name)

    def _patch_status(self, name: str, status: Object) -> bool:
        exists = self._server.store.collection("pods").get(("default", name)) is not None
        if exists:
            self._server.patch("pods", name, {"status": status}, status=True)
        return exists

    def _delete(self, name: str) -> None:
        if self._server.store.collection("pods").get(("default", name)) is not None:
            self._server.delete("pods", name, grace_seconds=0)


def _ready(beat: int) -> Object:
    return {"type": "Ready", "status": "True", "lastHeartbeatTime": format_time(beat)}


def _plain(job: str) -> Object:
    return {}


def _spread(job: str) -> Object:
    selector = {"matchLabels": {"job-name": job}}
    constraint = {"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "labelSelector": selector}
    return {"topologySpreadConstraints": [{**constraint, "whenUnsatisfiable": "DoNotSchedule"}]}


def _apart(job: str) -> Object:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"job-name": job}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _zoned(job: str) -> Object:
    """By zone, and not on nodes that are kept for this very job: a key that no other pod asks about."""
    zones = ["zone-0", "zone-1"]
    zoned = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}
    term = {"matchExpressions": [zoned, {"key": f"kept-for/{job}", "operator": "DoesNotExist"}]}
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}},
        },
        "tolerations": [{"key": job, "operator": "Exists"}],
    }
