"""What happens to a pod whose attempt failed: back to the queue, an event, a condition (facts 1.6, 2.8).

One way only: the pod is read again from the informer; if it is gone, has a node or is another pod by now, it is
dropped, otherwise the fresh copy is queued with the plugins that refused it.

Called by both cycles. Never awaits: writes go through `StatusPatches` and the event recorder.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kube.api.core import Pod
from scheduler.framework.handle import EventFunction
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.scheduling_cycle import Attempt
from scheduler.snapshot.pod_info import ShapeTable
from scheduler.status_patches import StatusPatches

POD_SCHEDULED = "PodScheduled"
UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
#: a refusal's event, and an error's
FAILED_SCHEDULING = "FailedScheduling"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed. `nominated_node` None leaves a nomination alone, "" clears it."""

    message: str
    rejected: bool
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominated_node: str | None = None
    #: the pod's node was taken from under it: nothing is wrong with the pod, so it need not wait
    at_once: bool = False

    @property
    def reason(self) -> str:
        """The reason of the condition; autoscalers act on `Unschedulable` only."""
        return UNSCHEDULABLE if self.rejected else SCHEDULER_ERROR


class FailureHandler:
    """Owner: Scheduler."""

    def __init__(
        self,
        queue: SchedulingQueue,
        shapes: ShapeTable,
        current: Callable[[str, str], Pod | None],
        patches: StatusPatches,
        event: EventFunction,
    ) -> None:
        self._queue = queue
        self._shapes = shapes
        #: (namespace, name) -> the pod as the informer has it
        self._current = current
        self._patches = patches
        self._event = event

    def handle(self, item: QueuedPodInfo, failure: Failure) -> bool:
        """Queue the pod again and tell the world; False where the pod needs no retry any more."""
        pod = item.pod
        current = self._current(pod.metadata.namespace, pod.metadata.name)
        if current is None or current.spec.node_name or current.metadata.uid != pod.metadata.uid:
            self._queue.nominator.delete(item.uid)
            self._queue.done(item.uid)
            self._patches.drop(item.uid)
            return False
        item.pod_info = self._shapes.pod_info(current)
        item.unschedulable_plugins = set(failure.unschedulable_plugins)
        item.pending_plugins = set(failure.pending_plugins)
        item.at_once = item.at_once or failure.at_once
        self._queue.add_unschedulable(item)
        self._nominate(item, failure.nominated_node)
        self._event(current, None, "Warning", FAILED_SCHEDULING, "Scheduling", failure.message)
        self._patch(item.uid, current, failure)
        return True

    def _nominate(self, item: QueuedPodInfo, node_name: str | None) -> None:
        """The scheduler's word counts, not the pod's status: that may not know of it yet."""
        nominator = self._queue.nominator
        if node_name is None:
            node_name = nominator.node_of(item.uid)
        nominator.delete(item.uid)
        if node_name:
            nominator.add(item.pod_info, node_name)

    def _patch(self, uid: str, pod: Pod, failure: Failure) -> None:
        patch: dict[str, Any] = {}
        condition = pod_scheduled_condition(pod, failure.reason, failure.message)
        if condition is not None:
            patch["conditions"] = [condition]
        nominated = self._patches.nomination(uid, pod)
        if failure.nominated_node is not None and failure.nominated_node != nominated:
            patch["nominatedNodeName"] = failure.nominated_node or None
        if patch:
            self._patches.put(uid, pod, patch)


def failure_of(attempt: Attempt) -> Failure:
    """What a failed cycle tells the queue and the world."""
    if attempt.error is not None:
        return Failure(attempt.error.message, rejected=False, nominated_node="")
    diagnosis = attempt.diagnosis
    assert diagnosis is not None, "a failed attempt without a diagnosis"
    nominated: str | None = None if attempt.node_count else ""
    if attempt.post_filter is not None:
        nominated = attempt.post_filter.nominated_node_name
    return Failure(
        diagnosis.message(),
        rejected=True,
        unschedulable_plugins=frozenset(diagnosis.unschedulable_plugins),
        pending_plugins=frozenset(diagnosis.pending_plugins),
        nominated_node=nominated,
    )


def pod_scheduled_condition(pod: Pod, reason: str, message: str) -> dict[str, Any] | None:
    """PodScheduled=False with the full text; None where the pod says so already (trap 6)."""
    old = next((c for c in pod.status.conditions if c.type == POD_SCHEDULED), None)
    generation = pod.metadata.generation
    if old is not None and (old.status, old.reason, old.message) == ("False", reason, message):
        return None
    now = rfc3339(time.time())
    condition: dict[str, Any] = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": old.last_transition_time if old is not None and old.status == "False" else now,
    }
    if generation:
        condition["observedGeneration"] = generation
    return condition


def rfc3339(seconds: float) -> str:
    """A wall-clock time as metav1.Time writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
