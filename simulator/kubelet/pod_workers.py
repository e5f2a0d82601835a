"""Pod workers: each pod is worked on by one worker at a time, always by its newest state (the kubelet's podWorkers).

    syncing ── deleted, or finished ──► terminating ── containers gone ──► terminated

An update that comes while the pod waits for its turn replaces the one before. The workers of all pods share one queue,
and a turn of the event loop takes a batch from it. A worker asks to be called again only where something can happen:
a pod that just runs costs nothing. Owner: `HollowKubelet`.
"""

import asyncio
import math
from collections import deque
from dataclasses import dataclass
from typing import Literal, Protocol

from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import Api, key_of, seconds_of
from simulator.kubelet.claims import ClaimManager
from simulator.kubelet.pod_status import FINISHED, overdue, phase_of, pod_status
from simulator.kubelet.runtime import START_SECONDS, STOP_SECONDS, Container, FakeRuntime, Sandbox, number
from simulator.kubelet.timers import BATCH, Timers

BACKOFF_BASE = 10.0
BACKOFF_MAX = 300.0
#: a container that has run so long starts its back-off anew
BACKOFF_RESET = 600.0
VOLUME_RETRY = 2.0
State = Literal["syncing", "terminating", "terminated"]


@dataclass(slots=True)
class PodWorker:
    """The worker of one pod."""

    pod: Object
    state: State = "syncing"
    queued: bool = False
    kill_at: float = math.inf
    expired: bool = False
    """Whether it ran longer than it may."""
    deadline: float = math.inf
    """When, on the loop's clock, it will have run for as long as it may, as far as a timer is set for it."""
    backoffs: int = 0


@dataclass(slots=True)
class Delays:
    """How long pods take to start and stop, where they do not say so themselves."""

    start: float = 0.0
    stop: float = 0.0


class Nodes(Protocol):
    """What a worker asks of its node."""

    def is_alive(self, node: str) -> bool:
        """Whether the node is there and has not failed."""

    def delays(self) -> Delays:
        """How long the next pod takes to start or stop."""

    def host_address(self, node: str) -> str:
        """The address of a node."""

    def pod_ended(self, pod: Object) -> None:
        """All containers of a pod have ended."""


class PodWorkers:
    """The workers of all pods of all nodes."""

    def __init__(self, api: Api, timers: Timers, runtime: FakeRuntime, nodes: Nodes, claims: ClaimManager) -> None:
        self._api = api
        self._timers = timers
        self._runtime = runtime
        self._nodes = nodes
        self._claims = claims
        self._workers: dict[str, PodWorker] = {}
        self._queue: deque[str] = deque()
        self._draining = False
        self._addresses = 0

    def __len__(self) -> int:
        """Count the workers."""
        return len(self._workers)

    def knows(self, uid: str) -> bool:
        """Whether a pod has a worker."""
        return uid in self._workers

    def update(self, pod: Object) -> None:
        """This is what the pod should be now."""
        uid = pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        if worker is None:
            worker = self._workers[uid] = PodWorker(pod)
        worker.pod = pod
        if worker.state == "syncing" and "deletionTimestamp" in pod["metadata"]:
            worker.state = "terminating"
        self.wake(uid)

    def wake(self, uid: str) -> None:
        """Something happened to a pod."""
        worker = self._workers.get(uid)
        if worker is None or worker.queued:
            return
        worker.queued = True
        self._queue.append(uid)
        if not self._draining:
            self._draining = True
            self._timers.after(0.0, self._drain)

    def forget(self, uid: str) -> None:
        """The pod is gone from the API: nothing of it shall be left."""
        self._workers.pop(uid, None)
        self._runtime.remove(uid)
        self._claims.release(uid)

    def reject(self, pod: Object, status: Object) -> None:
        """The pod will not be started: say so."""
        self._timers.after(0.0, self._write, pod, status)

    # --- working ---------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        for _ in range(BATCH):
            if not self._queue:
                break
            uid = self._queue.popleft()
            worker = self._workers.get(uid)
            if worker is not None:
                worker.queued = False
                self._work(uid, worker)
        self._draining = bool(self._queue)
        if self._draining:
            self._timers.after(0.0, self._drain)

    def _work(self, uid: str, worker: PodWorker) -> None:
        if not self._nodes.is_alive(worker.pod["spec"]["nodeName"]):
            return  # once the node is back, it is told of all its pods
        if worker.state == "syncing":
            self._sync(uid, worker)
        elif worker.state == "terminating":
            self._terminate(uid, worker)
        else:
            self._finish(worker)

    def _sync(self, uid: str, worker: PodWorker) -> None:
        if self._seconds_left(worker) <= 0:
            worker.expired, worker.state = True, "terminating"
            self._terminate(uid, worker)
            return
        box = self._runtime.get(uid)
        if box is None:
            if self._volumes_missing(worker.pod):
                self._timers.after(VOLUME_RETRY, self.wake, uid)
                return
            if wait := self._claims.seconds_to_wait(worker.pod):
                self._timers.after(wait, self.wake, uid)
                return
            box = self._start(worker.pod)
        elif box.up:
            for container in box.containers:
                self._restart_if_due(worker, box, container)
        self._report(worker, box)
        if phase_of(worker.pod["spec"], box) in FINISHED:
            worker.state = "terminated"
            self._claims.release(uid)
            self._nodes.pod_ended(worker.pod)
            return
        left = self._seconds_left(worker)
        at = asyncio.get_running_loop().time() + left
        if at < worker.deadline:
            worker.deadline = at
            self._timers.after(left, self.wake, uid)

    def _seconds_left(self, worker: PodWorker) -> float:
        """How long until a pod's `activeDeadlineSeconds` are over."""
        deadline = worker.pod["spec"].get("activeDeadlineSeconds")
        current = self._api.get("pods", key_of(worker.pod)) if deadline is not None else None
        started = ((current or {}).get("status") or {}).get("startTime")
        if deadline is None or not started:
            return math.inf
        return seconds_of(started) + float(deadline) - self._api.seconds()

    def _start(self, pod: Object) -> Sandbox:
        said = number(pod["metadata"].get("annotations") or {}, START_SECONDS)
        box = self._runtime.start(pod, self._nodes.delays().start if said is None else said)
        box.address = self._next_address()
        return box

    def _restart_if_due(self, worker: PodWorker, box: Sandbox, container: Container) -> None:
        """By the restart policy; the first time at once, then 10 s later, doubled each time up to five minutes."""
        if container.running or container.waiting or container.exit_code is None:
            return
        policy = worker.pod["spec"].get("restartPolicy", "Always")
        if policy == "Never" or (policy == "OnFailure" and container.exit_code == 0):
            return
        if box.run_seconds is not None and box.run_seconds > BACKOFF_RESET:
            worker.backoffs = 0
        delay = min(BACKOFF_MAX, BACKOFF_BASE * 2.0 ** (worker.backoffs - 1)) if worker.backoffs else 0.0
        worker.backoffs = min(worker.backoffs + 1, 16)
        self._runtime.restart(box.uid, container.name, delay)

    def _terminate(self, uid: str, worker: PodWorker) -> None:
        """Stop the containers within the grace period, which may be shortened while they stop."""
        box = self._runtime.get(uid)
        if box is not None and box.up and not box.killed:
            self._kill(uid, worker)
            return
        worker.state = "terminated"
        self._report(worker, box, terminating=True)
        self._finish(worker)

    def _kill(self, uid: str, worker: PodWorker) -> None:
        metadata = worker.pod["metadata"]
        given = worker.pod["spec"].get("terminationGracePeriodSeconds") if worker.expired else None
        grace = float(metadata.get("deletionGracePeriodSeconds") or given or 0)
        said = number(metadata.get("annotations") or {}, STOP_SECONDS)
        needed = self._nodes.delays().stop if said is None else said
        delay = min(needed, grace)
        at = asyncio.get_running_loop().time() + delay
        if at < worker.kill_at:
            worker.kill_at = at
            self._runtime.kill(uid, delay, forced=needed > grace)

    def _finish(self, worker: PodWorker) -> None:
        """All containers are gone; so the pod may go, if it is to be deleted."""
        self._claims.release(worker.pod["metadata"]["uid"])
        self._nodes.pod_ended(worker.pod)
        current = self._api.get("pods", key_of(worker.pod))
        if current is None or current["metadata"]["uid"] != worker.pod["metadata"]["uid"]:
            return
        if "deletionTimestamp" in current["metadata"] and current["metadata"].get("deletionGracePeriodSeconds"):
            self._api.delete("pods", current, grace_seconds=0)

    # --- parts -----------------------------------------------------------------------------------------------------

    def _report(self, worker: PodWorker, box: Sandbox | None, *, terminating: bool = False) -> None:
        """Tell the API server, by the newest state it has of the pod."""
        current = self._api.get("pods", key_of(worker.pod))
        if current is None or current["metadata"]["uid"] != worker.pod["metadata"]["uid"]:
            return
        host = self._nodes.host_address(current["spec"]["nodeName"])
        status = pod_status(current, box, host, self._api.now(), terminating=terminating)
        self._write(current, overdue(status) if worker.expired and terminating else status)

    def _write(self, pod: Object, status: Object) -> None:
        try:
            self._api.set_status("pods", pod, status)
        except ApiError as error:
            if error.code != 404:  # the pod is gone
                raise

    def _volumes_missing(self, pod: Object) -> bool:
        """A pod starts once all its claims are bound."""
        metadata = pod["metadata"]
        for volume in pod["spec"].get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if volume.get("ephemeral"):
                name = f"{metadata['name']}-{volume['name']}"
            if name and not self._is_bound((metadata["namespace"], name)):
                return True
        return False

    def _is_bound(self, key: Key) -> bool:
        claim = self._api.get("persistentvolumeclaims", key)
        return claim is not None and (claim.get("status") or {}).get("phase") == "Bound"

    def keep_address(self, address: str) -> None:
        """A pod that runs already has this address; later ones get others."""
        parts = address.split(".")
        if len(parts) == 4 and all(part.isdigit() for part in parts):
            high, middle, low = (int(part) for part in parts[1:])
            self._addresses = max(self._addresses, ((high - 128) << 16) + (middle << 8) + low)

    def _next_address(self) -> str:
        """Give each pod an address of its own below 10.128.0.0/9."""
        self._addresses = (self._addresses + 1) % 2**23
        count = self._addresses
        return f"10.{128 + (count >> 16)}.{count >> 8 & 255}.{count & 255}"
