"""Evicting the victims of a preemption, beside the scheduling cycle (facts 2.8, step 7).

The preemptor is held back by PreEnqueue until the last deletion is about to be sent, so that the event of that
deletion finds it waiting. Whatever fails, the preemptor is tried again: nothing here is retried for its own sake.

Owner: the evaluator of a profile. `start` is called in the cycle and never awaits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from kube.api.core import Pod
from kube.client.errors import Conflict, NotFound
from scheduler.framework.handle import Client, Handle
from scheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
#: evictions of one preemption that run at the same time
PARALLEL = 16


def is_terminating_by_preemption(pod: Pod) -> bool:
    """Being deleted because some pod preempted it."""
    if pod.metadata.deletion_timestamp is None:
        return False
    condition = next((c for c in pod.status.conditions if c.type == DISRUPTION_TARGET), None)
    return condition is not None and (condition.status, condition.reason) == ("True", PREEMPTION_BY_SCHEDULER)


class Executor:
    """Carries out what the evaluator chose."""

    def __init__(self, plugin: str, handle: Handle) -> None:
        self._plugin = plugin
        self._handle = handle
        #: UIDs of preemptors whose victims are being evicted
        self.preempting: set[str] = set()

    def start(self, preemptor: PodInfo, node_name: str, victims: Sequence[PodInfo]) -> None:
        """Begin to evict; offline nothing is done."""
        handle = self._handle
        if handle.spawn is None or handle.client is None or not victims:
            return
        nominated = handle.nominator.nominated_pods_for_node(node_name)
        lower = [info for info in nominated if info.priority < preemptor.priority]
        for info in lower:
            handle.nominator.delete(info.uid)
        self.preempting.add(preemptor.uid)
        work = _Eviction(self._plugin, handle, handle.client, preemptor, node_name)
        handle.spawn(self._run(work, lower, victims))

    async def _run(self, work: _Eviction, lower: Sequence[PodInfo], victims: Sequence[PodInfo]) -> None:
        started = perf_counter()
        preemptor = work.preemptor
        try:
            await work.clear_nominations(lower)
            done = await work.evict_all(victims[:-1])
        finally:
            self.preempting.discard(preemptor.uid)
        # Where one pod could not be evicted the room will not be enough: spare the rest and look again.
        done = done and await work.evict_all(victims[-1:])
        if not done or not work.still_there(victims):
            # No deletion will be seen any more that could wake the preemptor.
            self._handle.activate([preemptor.key])
        self._handle.preemption_done(len(victims), "success" if done else "error", perf_counter() - started)


class _Eviction:
    """The API calls of one preemption."""

    def __init__(self, plugin: str, handle: Handle, client: Client, preemptor: PodInfo, node_name: str) -> None:
        self._plugin = plugin
        self._handle = handle
        self._client = client
        self.preemptor = preemptor
        self._node_name = node_name

    async def clear_nominations(self, lower: Sequence[PodInfo]) -> None:
        """Pods of lower priority that were promised this node look for another one. A failure here is not critical."""
        for info in lower:
            if info.pod.status.nominated_node_name:
                try:
                    await self._patch_status(info.pod, {"nominatedNodeName": None})
                except Exception as failure:
                    log.warning("nomination of pod %s was not cleared: %s", info.key, failure)
        self._handle.activate([info.key for info in lower])

    async def evict_all(self, victims: Sequence[PodInfo]) -> bool:
        """Evict these, some at a time; whether all of them are, or will soon be, gone."""
        for start in range(0, len(victims), PARALLEL):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._evict(victim)) for victim in victims[start : start + PARALLEL]]
            if not all(task.result() for task in tasks):
                return False
        return True

    async def _evict(self, victim: PodInfo) -> bool:
        note = f"Preempted by pod {self.preemptor.uid} on node {self._node_name}"
        if self._handle.waiting_pods.preempt(victim.uid, self._plugin):
            note += " (in kube-scheduler memory)."
        else:
            try:
                if not await self._delete(victim.pod):
                    return True
            except Exception as failure:  # the preemptor's next attempt is the retry
                log.warning("victim %s of pod %s was not evicted: %s", victim.key, self.preemptor.key, failure)
                return False
        self._handle.event(victim.pod, self.preemptor.pod, "Normal", "Preempted", "Preempting", note)
        return True

    async def _delete(self, victim: Pod) -> bool:
        """Say why, then delete exactly this pod. False where it was gone before we came."""
        condition = self._condition(victim)
        if condition is not None:
            try:
                await self._patch_status(victim, {"conditions": [condition]})
            except NotFound:
                return False
            except Conflict:
                log.info("condition of victim %s was not written, it changed meanwhile", victim.key)
        try:
            await self._client.delete(victim, uid=victim.metadata.uid)
        except (NotFound, Conflict):
            # Another pod bears the name by now.
            return False
        return True

    async def _patch_status(self, pod: Pod, status: dict[str, Any]) -> None:
        await self._client.patch(pod, {"metadata": {"uid": pod.metadata.uid}, "status": status}, subresource="status")

    def _condition(self, victim: Pod) -> dict[str, Any] | None:
        """DisruptionTarget, by which controllers tell a disruption from a failure; None where it says so already."""
        message = f"{self.preemptor.pod.spec.scheduler_name}: preempting to accommodate a higher priority pod"
        said = (DISRUPTION_TARGET, "True", PREEMPTION_BY_SCHEDULER, message)
        if any((old.type, old.status, old.reason, old.message) == said for old in victim.status.conditions):
            return None
        condition: dict[str, Any] = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": PREEMPTION_BY_SCHEDULER,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._handle.now())),
        }
        if victim.metadata.generation:
            condition["observedGeneration"] = victim.metadata.generation
        return condition

    def still_there(self, victims: Sequence[PodInfo]) -> bool:
        """Whether some victim is still counted on the node, so that its deletion is yet to be seen."""
        node = self._handle.snapshot.info(self._node_name)
        return node is not None and any(victim.uid in node.pods for victim in victims)
