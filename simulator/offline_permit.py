"""Permit in an offline simulation: pods that wait for each other hold their room, in a time of the simulation's own.

Owner: the simulation. Time passes a little with each attempt, and jumps when nobody can be tried: to the end of the
first patience, the first timer of a plugin, or the next backoff. A pod is placed for good when it is let go, and gives
its room back when it is rejected or has waited too long, as in the service. No event loop is needed.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from kube.api.core import Pod
from scheduler.cache import SchedulerCache
from scheduler.framework.cluster_event import ASSIGNED_POD_DELETE
from scheduler.framework.runtime import Framework
from scheduler.framework.status import Code, Status
from scheduler.framework.waiting_pods import WaitingPod
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.scheduling_cycle import Attempt
from scheduler.snapshot.pod_info import PodInfo
from simulator.attempt_detail import not_placed
from simulator.results import PodResult

#: what one attempt takes, seconds: so that who failed first is first in line
ATTEMPT = 0.001
#: backoffs are looked at every second, as in the service
BACKOFF_STEP = 1.0


@dataclass(frozen=True, slots=True)
class Held:
    """A pod that has its room and waits."""

    framework: Framework
    info: PodInfo
    node: str
    attempt: Attempt
    result: PodResult
    #: None where pods are tried once, without a queue
    item: QueuedPodInfo | None


class Side(Protocol):
    """What is needed of the simulation."""

    cache: SchedulerCache
    frameworks: dict[str, Framework]

    def hold_devices(self, attempt: Attempt, node: str) -> None:
        """The pod's claims have what it was placed with."""

    def leave_queue(self, queue: SchedulingQueue, item: QueuedPodInfo, node: str) -> None:
        """A popped pod has its node."""

    def requeue(self, queue: SchedulingQueue, item: QueuedPodInfo) -> None:
        """A popped pod has to wait."""


class OfflinePermit:
    """The pods that wait, and the time."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._held: dict[str, tuple[Held, WaitingPod]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._start = time.time()
        self._now = 0.0
        for framework in side.frameworks.values():
            framework.handle.now = lambda: self._start + self._now
            framework.handle.later = self._later

    def now(self) -> float:
        """Seconds since the simulation began."""
        return self._now

    def attempted(self) -> None:
        """A pod was tried."""
        self._now += ATTEMPT

    def serve(self, queue: SchedulingQueue) -> None:
        """Plugins may wake and order the pods of this queue."""
        for framework in self._side.frameworks.values():
            handle = framework.handle
            handle.activate, handle.resort, handle.sit_out = queue.activate, queue.resort, queue.sit_out

    def ask(self, held: Held) -> Status | None:
        """None: the pod is placed for good. WAIT: it is held from now on. Else it was rejected, and has no room."""
        framework = held.framework
        placed = held.info.on_node(held.node)
        status, timeouts = framework.ask_permit(held.attempt.state, placed, held.node)
        if status.ok:
            self._side.hold_devices(held.attempt, held.node)
            return None
        if status.code is Code.WAIT:
            waiting = WaitingPod(placed, held.node, timeouts, self._now)
            framework.handle.waiting_pods.add(waiting)
            self._held[held.info.uid] = held, waiting
        else:
            self._give_back(held)
        return status

    def released(self) -> dict[str, PodResult]:
        """uid -> result of the pods that wait no longer."""
        return {held.info.uid: self._release(held, status) for held, status in self._decided()}

    def settled(self, queue: SchedulingQueue) -> Iterator[tuple[QueuedPodInfo, PodResult]]:
        """The same where pods come out of a queue: they leave it, or go back into it."""
        gone: dict[Any, Pod] = {}
        for held, status in self._decided():
            assert held.item is not None, "it came out of the queue"
            result = self._release(held, status)
            if status.ok:
                self._side.leave_queue(queue, held.item, held.node)
            else:
                held.item.unschedulable_plugins = {status.plugin}
                self._side.requeue(queue, held.item)
                # Members are mostly alike: one of each kind says what became free.
                gone[held.info.shape.key] = held.info.on_node(held.node).pod
            yield held.item, result
        for pod in gone.values():
            queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, pod, None)

    def _release(self, held: Held, status: Status) -> PodResult:
        if status.ok:
            self._side.hold_devices(held.attempt, held.node)
            return held.result
        self._give_back(held)
        return not_placed(held.result, status)

    def _give_back(self, held: Held) -> None:
        held.framework.run_unreserve(held.attempt.state, held.info.on_node(held.node).pod, held.node)
        self._side.cache.remove_pod(held.info.uid)

    def _decided(self) -> Iterator[tuple[Held, Status]]:
        """Those that wait no longer. What is done about one of them may decide on others."""
        while found := next((pair for pair in self._held.values() if pair[1].decided is not None), None):
            held, waiting = found
            del self._held[held.info.uid]
            held.framework.handle.waiting_pods.remove(held.info.uid)
            assert waiting.decided is not None, "chosen because it is decided"
            yield held, waiting.decided

    def pass_time(self, queue: SchedulingQueue | None) -> bool:
        """Let something happen. False where nothing will, however long one waits."""
        due = [waiting.deadline for _, waiting in self._held.values()]
        due += [self._timers[0][0]] if self._timers else []
        due += [self._now + BACKOFF_STEP] if queue is not None and queue.lengths()["backoff"] else []
        if not due:
            return False
        self._now = max(self._now, min(due))
        for _, waiting in self._held.values():
            if waiting.decided is None:
                waiting.expire(self._now)
        while self._timers and self._timers[0][0] <= self._now:
            heapq.heappop(self._timers)[2]()
        if queue is not None:
            queue.flush_backoff_completed()
        return True

    def _later(self, seconds: float, function: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self._now + seconds, next(self._count), function))
