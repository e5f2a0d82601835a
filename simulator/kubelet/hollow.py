"""The kubelets of all nodes of one server, in one object: hollow, but with the structure of the real one.

    kubelet = HollowKubelet(server, start_delay=2.0)
    kubelet.start()
    kubelet.fail("node-7")       # silent and dead to the world, until
    kubelet.recover("node-7")

It follows the server's store in process and hands each node's sync loop its news. All nodes share one timer, one
runtime, one pool of pod workers: an idle node costs nothing but its heartbeat. It has no tasks. Owner: `Cluster`.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable

from simulator.apiserver.errors import Object
from simulator.apiserver.server import ApiServer
from simulator.apiserver.watch_cache import Event, Key, View
from simulator.controllers.api import Api
from simulator.kubelet.claims import ClaimManager, Driver
from simulator.kubelet.heartbeats import Heartbeats
from simulator.kubelet.pod_workers import Delays, PodWorkers
from simulator.kubelet.runtime import FakeRuntime
from simulator.kubelet.sync_loop import SyncLoop
from simulator.kubelet.timers import Timers


class HollowKubelet:
    """Plays the kubelets of every node of one server."""

    def __init__(
        self,
        server: ApiServer,
        *,
        start_delay: float = 0.0,
        stop_delay: float = 0.0,
        jitter: float = 0.0,
        seed: int = 0,
        heartbeat: float = 0.0,
        status_interval: float = 300.0,
    ) -> None:
        """Delays and intervals in seconds; a heartbeat of 0 is none."""
        self._server = server
        self._api = Api(server)
        self._delays = Delays(start_delay, stop_delay)
        self._jitter = jitter
        self._random = random.Random(seed)
        self._timers = Timers()
        self._runtime = FakeRuntime(self._timers, self._now, self._lifecycle)
        self.drivers: dict[str, Driver] = {}
        self._claims = ClaimManager(self._api, self.drivers)
        self.workers = PodWorkers(self._api, self._timers, self._runtime, self, self._claims)
        self._heartbeats = (
            Heartbeats(self._api, self._timers, self.is_alive, lease=heartbeat, status=status_interval)
            if heartbeat
            else None
        )
        self._loops: dict[str, SyncLoop] = {}
        self._pods: defaultdict[str, set[Key]] = defaultdict(set)
        self._unfollow: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begin with what is there, and follow the store from now on; needs a running event loop."""
        store = self._server.store
        for revision in store.collection("nodes").seen(View()):
            self._add_node(revision.obj["metadata"]["name"])
        for revision in store.collection("pods").seen(View()):
            self._pod_is_here(revision.key, revision.obj)
        self._unfollow = [store.listen("pods", self._on_pod), store.listen("nodes", self._on_node)]

    def stop(self) -> None:
        """Leave all pods as they are; what was planned is forgotten."""
        for unfollow in self._unfollow:
            unfollow()
        self._unfollow = []
        self._timers.stop()
        self._loops.clear()
        self._pods.clear()

    # --- failing nodes ---------------------------------------------------------------------------------------------

    def is_alive(self, node: str) -> bool:
        """Whether a node is there and has not failed."""
        loop = self._loops.get(node)
        return loop is not None and loop.alive

    def fail(self, node: str) -> None:
        """The node falls silent: no heartbeats, and nothing that is asked of it happens."""
        self._loops[node].alive = False

    def recover(self, node: str) -> None:
        """The node is back, with the containers it had, and catches up with what it should be."""
        loop = self._loops.get(node)
        if loop is None or loop.alive:
            return
        loop.alive = True
        pods = (self._api.get("pods", key) for key in sorted(self._pods[node]))
        loop.housekeeping([pod for pod in pods if pod is not None])
        if self._heartbeats is not None:
            self._heartbeats.begin(node)

    # --- the config channel ----------------------------------------------------------------------------------------

    def _on_pod(self, event: Event) -> None:
        pod, key = event.revision.obj, event.revision.key
        node = pod["spec"].get("nodeName")
        if not node:
            return
        if event.type == "DELETED":
            self._pods[node].discard(key)
            if (loop := self._loops.get(node)) is not None and loop.alive:
                loop.pod_removed(pod)
            return
        before = event.before.obj if event.before is not None else None
        if before is None or before["spec"].get("nodeName") != node:
            self._pod_is_here(key, pod)
        elif (loop := self._loops.get(node)) is not None and loop.alive:
            loop.pod_updated(before, pod)

    def _pod_is_here(self, key: Key, pod: Object) -> None:
        node = pod["spec"].get("nodeName")
        if not node:
            return
        self._pods[node].add(key)
        loop = self._loops.get(node)
        if loop is not None and loop.alive:
            loop.pod_added(pod)

    def _on_node(self, event: Event) -> None:
        name = event.revision.key[1]
        if event.type == "ADDED":
            self._add_node(name)
            for key in sorted(self._pods[name]):
                pod = self._api.get("pods", key)
                if pod is not None:
                    self._loops[name].pod_added(pod)
        elif event.type == "DELETED":
            self._remove_node(name)

    def _add_node(self, name: str) -> None:
        self._loops[name] = SyncLoop(name, self._api, self.workers, self._runtime)
        if self._heartbeats is not None:
            self._heartbeats.begin(name)

    def _remove_node(self, name: str) -> None:
        """The machine is gone, and with it all that ran there; its pods are for the garbage collector."""
        loop = self._loops.pop(name, None)
        for uid in list(loop.account.admitted) if loop is not None else ():
            self.workers.forget(uid)
        if self._heartbeats is not None:
            self._heartbeats.end(name)

    # --- what the parts ask ----------------------------------------------------------------------------------------

    def delays(self) -> Delays:
        """How long the next pod takes to start or stop."""
        more = self._random.random() * self._jitter if self._jitter else 0.0
        return Delays(self._delays.start + more, self._delays.stop + more)

    def host_address(self, node: str) -> str:
        """The address of a node."""
        found = self._api.get("nodes", ("", node)) or {}
        for address in (found.get("status") or {}).get("addresses") or ():
            if address.get("type") == "InternalIP":
                return str(address["address"])
        return "127.0.0.1"

    def pod_ended(self, pod: Object) -> None:
        """All containers of a pod have ended."""
        loop = self._loops.get(pod["spec"]["nodeName"])
        if loop is not None:
            loop.pod_ended(pod["metadata"]["uid"])

    def _lifecycle(self, uid: str, event: str) -> None:
        box = self._runtime.get(uid)
        loop = self._loops.get(box.node) if box is not None else None
        if loop is not None:
            loop.lifecycle(uid)

    def _now(self) -> tuple[str, float]:
        return self._api.now(), asyncio.get_running_loop().time()
