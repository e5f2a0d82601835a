"""Evicting the victims of a preemption, beside the scheduling cycle (facts 2.8, step 7).

The preemptor is held back by PreEnqueue until the last deletion is about to be sent, so that the event of that
deletion finds it waiting. Whatever fails, the preemptor is tried again: nothing here is retried for its own sake.

Owner: the evaluator of a profile. `start` is called in the cycle and never awaits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

from kube.api.core import Pod
from kube.client.errors import Conflict, NotFound
from scheduler.framework.handle import Client, Handle
from scheduler.framework.pod_groups import Group
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
        #: UIDs of preemptors whose victims are being evicted, and keys of groups
        self.preempting: Counter[str] = Counter()

    def start(self, preemptor: PodInfo, node_name: str, victims: Sequence[PodInfo]) -> None:
        """Begin to evict; offline nothing is done. For a member of a group only once the whole group is decided."""
        group = self._handle.group
        if group is not None:
            held_back = (preemptor.uid, group.key)
            group.evictions.append(lambda: self._start(preemptor, held_back, {node_name: preemptor.priority}, victims))
            return
        self._start(preemptor, (preemptor.uid,), {node_name: preemptor.priority}, victims)

    def start_for_group(
        self, group: Group, members: Sequence[PodInfo], nodes: Iterable[str], victims: Sequence[PodInfo]
    ) -> None:
        """The same for a group that preempts as one, once it is decided."""
        run = self._handle.group
        assert run is not None, "a group preempts while it is being decided"
        name = f"podgroup {group.obj.metadata.uid if group.obj is not None else group.key}"
        places = dict.fromkeys(nodes, group.priority)
        keys = [member.key for member in members]
        run.evictions.append(lambda: self._start(members[0], (group.key,), places, victims, name, keys))

    def _start(
        self,
        preemptor: PodInfo,
        held_back: Sequence[str],
        places: Mapping[str, int],
        victims: Sequence[PodInfo],
        name: str = "",
        wake: Sequence[str] = (),
    ) -> None:
        """`places`: the nodes, and the priority below which nominations to them are void."""
        handle = self._handle
        if handle.spawn is None or handle.client is None or not victims:
            return
        lower = [
            info
            for node_name, priority in places.items()
            for info in handle.nominator.nominated_pods_for_node(node_name)
            if info.priority < priority
        ]
        for info in lower:
            handle.nominator.delete(info.uid)
        self.preempting.update(held_back)
        work = _Eviction(self._plugin, handle, handle.client, preemptor, name or f"pod {preemptor.uid}")
        handle.spawn(self._run(work, lower, victims, held_back, wake or (preemptor.key,)))

    async def _run(
        self,
        work: _Eviction,
        lower: Sequence[PodInfo],
        victims: Sequence[PodInfo],
        held_back: Sequence[str],
        wake: Sequence[str],
    ) -> None:
        started = perf_counter()
        try:
            await work.clear_nominations(lower)
            done = await work.evict_all(victims[:-1])
        finally:
            for key in held_back:
                self.preempting[key] -= 1
            self.preempting = +self.preempting
        # Where one pod could not be evicted the room will not be enough: spare the rest and look again.
        done = done and await work.evict_all(victims[-1:])
        if not done or not work.still_there(victims):
            # No deletion will be seen any more that could wake the preemptor.
            self._handle.activate(wake)
        self._handle.preemption_done(len(victims), "success" if done else "error", perf_counter() - started)


class _Eviction:
    """The API calls of one preemption. `name`: who preempts, for people."""

    def __init__(self, plugin: str, handle: Handle, client: Client, preemptor: PodInfo, name: str) -> None:
        self._plugin = plugin
        self._handle = handle
        self._client = client
        self.preemptor = preemptor
        self._name = name

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
        note = f"Preempted by {self._name} on node {victim.pod.spec.node_name}"
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
        """Whether some victim is still counted on its node, so that its deletion is yet to be seen."""
        nodes = ((self._handle.snapshot.info(victim.pod.spec.node_name), victim.uid) for victim in victims)
        return any(node is not None and uid in node.pods for node, uid in nodes)
