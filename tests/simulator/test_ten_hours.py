"""A large cluster over ten virtual hours: Deployments roll, nodes fail and come back, others are drained.

At the end everything is as its owners want it: that is all that is asked, and it is asked of all of it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from simulator.apiserver.errors import ApiError
from simulator.apiserver.eviction import evict
from simulator.apiserver.watch_cache import Event, View
from simulator.cluster import Cluster, NodeSettings, make_node_template
from simulator.controllers.manager import Settings
from tests.simulator.virtual import virtual_clock, workload

HOUR = 3600.0
NODES, NAMESPACES, DEPLOYMENTS, REPLICAS = 1000, 60, 180, 50
DAEMONS = NODES
EVERYTHING = View()
Object = dict[str, Any]


class TwoChoices:
    """A scheduler for a test: of two nodes picked at random, the one with fewer pods; a pin is obeyed."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._random = rng
        self._waiting: dict[tuple[str, str], str] = {}
        self._count: Counter[str] = Counter()
        self._free: list[str] = []
        self._stale = True
        self._armed = False
        cluster.server.store.listen("pods", self._on_pod)
        cluster.server.store.listen("nodes", self._on_node)

    def _on_node(self, event: Event) -> None:
        before = event.before.obj["spec"] if event.before is not None else None
        if before is None or before.get("taints") != event.revision.obj["spec"].get("taints"):
            self._stale = True
            self._arm()

    def _on_pod(self, event: Event) -> None:
        pod = event.revision.obj
        node = pod["spec"].get("nodeName")
        if event.type == "DELETED":
            self._waiting.pop(event.revision.key, None)
            if node:
                self._count[node] -= 1
        elif not node and event.type == "ADDED":
            self._waiting[event.revision.key] = _pin(pod)
            self._arm()

    def _arm(self) -> None:
        if self._waiting and not self._armed:
            self._armed = True
            asyncio.get_running_loop().call_later(0.5, self._work)

    def _work(self) -> None:
        self._armed = False
        if self._stale:
            nodes = self._cluster.server.store.collection("nodes").seen(EVERYTHING)
            self._free = [r.key[1] for r in nodes if not r.obj["spec"].get("taints")]
            self._stale = False
        free = set(self._free)
        for key, pin in list(self._waiting.items()):
            if pin and pin not in free:
                continue
            node = pin or min(self._random.choices(self._free, k=2), key=lambda name: self._count[name])
            self._count[node] += 1
            del self._waiting[key]
            self._cluster.server.bind(key[1], node, key[0])


def _pin(pod: Object) -> str:
    affinity = pod["spec"].get("affinity")
    if not affinity:
        return ""
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(term["matchFields"][0]["values"][0])


class Operators:
    """People and accidents: they roll Deployments out, drain nodes, and let others fail."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._random = rng
        self.rolled = self.drained = self.failed = self.refused = 0
        self._busy: set[str] = set()

    async def roll(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            self.rolled += 1
            number = self._random.randrange(DEPLOYMENTS)
            container = {"name": "main", "image": f"app:{self.rolled}"}
            patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
            self._cluster.server.patch("deployments.apps", f"web-{number}", patch, _namespace(number))

    async def fail(self, group: asyncio.TaskGroup, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            group.create_task(self._fail_one())

    async def _fail_one(self) -> None:
        node = self._pick()
        self.failed += 1
        self._cluster.kubelet.fail(node)
        await asyncio.sleep(self._random.uniform(600, 5000))
        self._cluster.kubelet.recover(node)
        self._busy.discard(node)

    async def drain(self, group: asyncio.TaskGroup, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            group.create_task(self._drain_one())

    async def _drain_one(self) -> None:
        """As `kubectl drain` does: cordon, evict all but daemons, again and again until none is left."""
        node, server = self._pick(), self._cluster.server
        server.patch("nodes", node, {"spec": {"unschedulable": True}})
        while pods := [pod for pod in server.list("pods", fields=f"spec.nodeName={node}") if not _is_daemon(pod)]:
            for pod in pods:
                self._evict(pod)
            await asyncio.sleep(5)
        server.patch("nodes", node, {"spec": {"unschedulable": False}})
        self.drained += 1
        self._busy.discard(node)

    def _evict(self, pod: Object) -> None:
        metadata, server = pod["metadata"], self._cluster.server
        try:
            evict(server.verbs, server.resource("pods"), metadata["namespace"], metadata["name"], {})
        except ApiError as error:
            if error.code != 429:
                raise
            self.refused += 1

    def _pick(self) -> str:
        while True:
            node = f"node-{self._random.randrange(NODES) + 1:04d}"
            if node not in self._busy:
                self._busy.add(node)
                return node


def _is_daemon(pod: Object) -> bool:
    return bool(pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet")


def _namespace(number: int) -> str:
    return f"team-{number % NAMESPACES}"


def _create_everything(cluster: Cluster) -> None:
    cluster.add_nodes(make_node_template(cpu="16", memory="64Gi"), NODES)
    for number in range(NAMESPACES):
        cluster.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{number}"}})
    cluster.server.create(workload("DaemonSet", "agent"))
    for number in range(DEPLOYMENTS):
        name, namespace = f"web-{number}", _namespace(number)
        deployment = workload("Deployment", name, replicas=REPLICAS)
        deployment["metadata"]["namespace"] = namespace
        cluster.server.create(deployment)
        spec = {"selector": {"matchLabels": {"app": name}}, "maxUnavailable": "10%"}
        metadata = {"name": name, "namespace": namespace}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
        cluster.server.create(budget)


@pytest.mark.looptime(noop_cycles=1)
@pytest.mark.timeout(300)
async def test_ten_hours():
    rng = random.Random(1)
    nodes = NodeSettings(start_delay=3.0, stop_delay=2.0, heartbeat=600.0, status_interval=3600.0)
    controllers = Settings(events=False, node_grace=1500.0, node_period=200.0)
    cluster = Cluster(clock=virtual_clock(), nodes=nodes, controllers=controllers)
    TwoChoices(cluster, rng)
    operators = Operators(cluster, rng)
    await cluster.start(listen=False)
    try:
        await _live_through_it(cluster, operators)
        _everything_is_as_it_should_be(cluster)
    finally:
        await cluster.stop()


async def _live_through_it(cluster: Cluster, operators: Operators) -> None:
    _create_everything(cluster)
    await asyncio.sleep(600)
    async with asyncio.TaskGroup() as group:
        work = [
            group.create_task(operators.roll(600)),
            group.create_task(operators.fail(group, 900)),
            group.create_task(operators.drain(group, 1800)),
        ]
        await asyncio.sleep(9 * HOUR + 1)
        for task in work:
            task.cancel()
    await asyncio.sleep(HOUR)
    assert (operators.rolled, operators.failed, operators.drained) == (54, 36, 18)


def _everything_is_as_it_should_be(cluster: Cluster) -> None:
    server = cluster.server
    assert cluster.controllers.failures == 0
    for deployment in server.list("deployments.apps"):
        status = deployment["status"]
        counts = {key: status.get(key) for key in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")}
        assert set(counts.values()) == {REPLICAS}, deployment["metadata"]["name"]
        assert "unavailableReplicas" not in status
    pods = server.list("pods")
    assert len(pods) == DEPLOYMENTS * REPLICAS + DAEMONS
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert not any("deletionTimestamp" in pod["metadata"] for pod in pods)
    for number in range(DEPLOYMENTS):
        wanted = server.get("deployments.apps", f"web-{number}", _namespace(number))["spec"]["template"]["spec"]
        images = {p["spec"]["containers"][0]["image"] for p in server.list("pods", labels=f"app=web-{number}")}
        assert images == {wanted["containers"][0]["image"]}
    daemons = Counter(pod["spec"]["nodeName"] for pod in pods if _is_daemon(pod))
    assert len(daemons) == NODES
    assert set(daemons.values()) == {1}
    for node in server.list("nodes"):
        assert not node["spec"].get("taints"), node["metadata"]["name"]
        assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
    assert {budget["status"]["disruptionsAllowed"] for budget in server.list("poddisruptionbudgets.policy")} == {5}
