"""A hollow kubelet for all nodes at once: bound pods become Running, deleted pods go.

    pod bound to a known node ── start_delay ──► Running and Ready
    deletionTimestamp set     ── stop_delay  ──► gone (grace 0)

It follows the server's store in process, keeps one queue of what is due for all nodes, and arms one timer for the
earliest of it: an idle node costs nothing. It runs nothing and has no tasks. Owner: `Cluster`.
"""

import asyncio
import heapq
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Literal, NamedTuple

from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.server import ApiServer
from simulator.apiserver.verbs import DeleteOptions
from simulator.apiserver.watch_cache import Event, Key, Revision, View

BATCH = 200  # pods changed in one turn of the event loop

Step = Literal["start", "stop"]


class Due(NamedTuple):
    """Something to do to one pod; `order` keeps those due at the same time in the order they came."""

    when: float
    order: int
    step: Step
    key: Key
    uid: str


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
    ) -> None:
        self._server = server
        self._pods = server.resource("pods")
        self._delays: dict[Step, float] = {"start": start_delay, "stop": stop_delay}
        self._jitter = jitter
        self._random = random.Random(seed)
        self._due: list[Due] = []
        self._order = 0
        self._planned: dict[Key, tuple[str, Step]] = {}
        self._without_node: defaultdict[str, set[Key]] = defaultdict(set)
        self._addresses = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._unfollow: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begin with the pods that are there, and follow the store from now on; needs a running event loop."""
        for revision in self._server.store.collection("pods").seen(View()):
            self._consider(revision)
        store = self._server.store
        self._unfollow = [store.listen("pods", self._on_pod), store.listen("nodes", self._on_node)]

    def stop(self) -> None:
        """Leave all pods as they are; what was planned is forgotten."""
        for unfollow in self._unfollow:
            unfollow()
        self._unfollow = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due.clear()
        self._planned.clear()
        self._without_node.clear()

    # --- finding out what is due -----------------------------------------------------------------------------------

    def _on_pod(self, event: Event) -> None:
        if event.type == "DELETED":
            self._planned.pop(event.revision.key, None)
            self._without_node.get(event.revision.obj["spec"].get("nodeName") or "", set()).discard(event.revision.key)
        else:
            self._consider(event.revision)

    def _on_node(self, event: Event) -> None:
        if event.type != "ADDED":
            return
        pods = self._server.store.collection("pods")
        for key in self._without_node.pop(event.revision.key[1], ()):
            if (revision := pods.get(key)) is not None:
                self._consider(revision)

    def _consider(self, revision: Revision) -> None:
        pod = revision.obj
        node = pod["spec"].get("nodeName")
        if not node:
            return
        if self._server.store.collection("nodes").get(("", node)) is None:
            self._without_node[node].add(revision.key)
        elif "deletionTimestamp" in pod["metadata"]:
            self._plan("stop", revision)
        elif (pod.get("status") or {}).get("phase", "Pending") == "Pending":
            self._plan("start", revision)

    def _plan(self, step: Step, revision: Revision) -> None:
        plan = (revision.obj["metadata"]["uid"], step)
        if self._planned.get(revision.key) == plan:
            return
        self._planned[revision.key] = plan
        delay = self._delays[step] + self._random.random() * self._jitter
        when = asyncio.get_running_loop().time() + delay
        self._order += 1
        heapq.heappush(self._due, Due(when, self._order, step, revision.key, plan[0]))
        self._arm()

    def _arm(self) -> None:
        """Set the timer to what is due first."""
        if not self._due:
            return
        when = self._due[0].when
        if self._timer is not None and self._timer_at <= when:
            return
        if self._timer is not None:
            self._timer.cancel()
        # The time is kept here: a handle of uvloop for something due at once does not know it.
        self._timer_at = when
        self._timer = asyncio.get_running_loop().call_at(when, self._work)

    # --- doing it ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for _ in range(BATCH):
            if not self._due or self._due[0].when > now:
                break
            self._do(heapq.heappop(self._due))
        self._arm()

    def _do(self, due: Due) -> None:
        if self._planned.get(due.key) != (due.uid, due.step):
            return
        revision = self._server.store.collection("pods").get(due.key)
        if revision is None:
            return
        if due.step == "start":
            running = self._running(revision.obj)
            self._server.verbs.commit(self._pods, revision, running)
            self._planned.pop(due.key, None)
            return
        try:
            self._server.verbs.delete(self._pods, *due.key, DeleteOptions(grace_seconds=0, uid=due.uid))
        except ApiError as error:  # it went by itself in between
            if error.code != 404:
                raise

    def _running(self, pod: Object) -> Object:
        """Give the pod as it looks once all its containers run."""
        now = self._server.verbs.now()
        host = self._host_address(pod["spec"]["nodeName"])
        address = host if pod["spec"].get("hostNetwork") else self._next_address()
        known = pod.get("status") or {}
        kept = [c for c in known.get("conditions") or () if c.get("type") not in _RUNNING_CONDITIONS]
        conditions = [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
            for kind in _RUNNING_CONDITIONS
        ]
        status = {
            **known,
            "phase": "Running",
            "observedGeneration": pod["metadata"].get("generation", 0),
            "conditions": conditions + kept,
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": now,
            "containerStatuses": [_container_status(c, now) for c in pod["spec"].get("containers") or ()],
        }
        return {**pod, "metadata": dict(pod["metadata"]), "status": status}

    def _host_address(self, node: str) -> str:
        revision = self._server.store.collection("nodes").get(("", node))
        status = (revision.obj.get("status") or {}) if revision else {}
        for address in status.get("addresses") or ():
            if address.get("type") == "InternalIP":
                return str(address["address"])
        return "127.0.0.1"

    def _next_address(self) -> str:
        """Give each pod an address of its own below 10.128.0.0/9."""
        self._addresses = (self._addresses + 1) % 2**23
        number = self._addresses
        return f"10.{128 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


_RUNNING_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def _container_status(container: Object, now: str) -> Object:
    return {
        "name": container["name"],
        "state": {"running": {"startedAt": now}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": container.get("image", ""),
        "imageID": "",
        "started": True,
    }
