"""The binding cycle: from an assumed pod to a bound one, one task a pod (facts 2.8).

PreBindPreFlight, nominatedNodeName where the pod will have to wait, WaitOnPermit, PreBind, Bind, PostBind. Any
failure goes one way: unreserve, forget, tell the pods that wait for the room, back to the queue.

Owner of the tasks: Scheduler. This is where podium awaits the API server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from kube.api.core import Pod
from scheduler.bind_answers import BIND_FAILURES, Verdict, is_conflict, judge
from scheduler.cache import SchedulerCache
from scheduler.failure import Failure, FailureHandler
from scheduler.framework.cluster_event import ASSIGNED_POD_DELETE
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import refused_where_chosen
from scheduler.framework.extender import ExtenderError
from scheduler.framework.runtime import Framework
from scheduler.framework.status import Code, Status, error, unschedulable
from scheduler.metrics import Metrics
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.status_patches import StatusPatches

log = logging.getLogger(__name__)

#: binds that met a conflict and are tried again at once
MAX_CONFLICTS_IN_A_ROW = 3
NOTHING: frozenset[str] = frozenset()


@dataclass(slots=True)
class Assumed:
    """A pod that was assumed and reserved on a node."""

    framework: Framework
    state: CycleState
    item: QueuedPodInfo
    #: the pod with its node name, as the cache counts it
    pod_info: PodInfo
    node_name: str
    #: what the node had too much of when it was chosen, because filters were told to ignore it
    overfull: frozenset[str]
    waits_on_permit: bool
    #: when the attempt began (perf_counter, seconds)
    started: float
    #: what a failed bind means for the pod
    verdict: Verdict = Verdict.RETRY


def overfull(node: NodeInfo | None, pod_info: PodInfo) -> frozenset[str]:
    """The resources that the pod asks for and of which the node has given away more than it has."""
    if node is None:
        return NOTHING
    requested, allocatable = node.requested, node.allocatable
    over = ["pods"] if requested.get("pods", 0) > allocatable.get("pods", 0) else []
    for name, amount in pod_info.requests.items():
        if amount > 0 and requested.get(name, 0) > allocatable.get(name, 0):
            over.append(name)
    return frozenset(over) if over else NOTHING


class BindingCycle:
    """Owner: Scheduler."""

    def __init__(
        self,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        failures: FailureHandler,
        patches: StatusPatches,
        metrics: Metrics,
        bound: Callable[[Assumed], None],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._failures = failures
        self._patches = patches
        self._metrics = metrics
        #: told of every pod that was bound
        self._bound = bound
        #: pods that are not ours to bind any more, which the informer has yet to show
        self.left_alone: set[str] = set()

    async def run(self, assumed: Assumed) -> None:
        """Bind the pod, or undo all that was done for it. Raises only if cancelled."""
        try:
            status = await self._steps(assumed)
        except asyncio.CancelledError:
            self._undo(assumed)
            raise
        except Exception as bug:
            log.exception("binding pod %s failed", assumed.pod_info.key)
            status = error(f"{type(bug).__name__}: {bug}")
        if status is None:
            return
        if assumed.verdict is Verdict.DROP:
            self._drop(assumed, status)
        else:
            self._fail(assumed, status)

    async def _steps(self, assumed: Assumed) -> Status | None:
        framework, state, node_name = assumed.framework, assumed.state, assumed.node_name
        pod = assumed.pod_info.pod
        working, status = framework.run_pre_bind_pre_flight(state, pod, node_name)
        if not status.ok:
            return status
        if (assumed.waits_on_permit or working) and framework.handle.gate("NominatedNodeNameForExpectation"):
            self._nominate(assumed)
        if assumed.waits_on_permit:
            refused = await self._wait_on_permit(assumed)
            if refused is not None:
                return refused
        # A failure from here on is retried after its backoff, whatever happened: no event need be kept for it.
        self._queue.done(assumed.item.uid)
        if working:
            status_or_none = await framework.run_pre_bind(working, state, pod, node_name)
            if status_or_none is not None:
                return status_or_none
        if self._patches.drop(assumed.item.uid):
            await self._patches.settle(assumed.item.uid)
        refused = self._recheck(assumed)
        if refused is not None:
            return refused
        return await self._bind(assumed, pod)

    async def _wait_on_permit(self, assumed: Assumed) -> Status | None:
        started = perf_counter()
        status = await assumed.framework.wait_on_permit(assumed.pod_info)
        self._metrics.permit_wait.labels(status.code.text).observe(perf_counter() - started)
        return None if status.ok else status

    def _nominate(self, assumed: Assumed) -> None:
        """Autoscalers must not take the node away while the pod waits for it (KEP-5278)."""
        pod, uid = assumed.item.pod, assumed.item.uid
        if self._patches.nomination(uid, pod) != assumed.node_name:
            self._patches.put(uid, pod, {"nominatedNodeName": assumed.node_name})

    def _recheck(self, assumed: Assumed) -> Status | None:
        """Another scheduler may have filled the node meanwhile: look at the cache once more before the bind."""
        node = self._cache.nodes.get(assumed.node_name)
        if node is None or node.node is None:
            return unschedulable(f"node {assumed.node_name} is gone")
        if not self._cache.is_assumed(assumed.pod_info.uid):
            return unschedulable(f"pod {assumed.pod_info.key} is no longer assumed")
        over = overfull(node, assumed.pod_info) - assumed.overfull
        if not over:
            return None
        self._metrics.bind_rechecks.inc()
        return unschedulable(f"node {assumed.node_name} was filled by others: {', '.join(sorted(over))}")

    async def _bind(self, assumed: Assumed, pod: Pod) -> Status | None:
        framework, started = assumed.framework, perf_counter()
        try:
            if framework.handle.extenders:
                status = await self._ask_binders(assumed, pod)
            else:
                status = await framework.run_bind(assumed.state, pod, assumed.node_name)
        except BIND_FAILURES as failure:
            status = await self._after_error(assumed, failure)
        self._cache.finish_binding(assumed.pod_info)
        result = "Success" if status is None else status.code.text
        framework.observe("Bind", result, perf_counter() - started)
        if status is not None:
            return status
        self._patches.drop(assumed.item.uid)
        self._bound(assumed)
        framework.run_post_bind(assumed.state, pod, assumed.node_name)
        return None

    async def _ask_binders(self, assumed: Assumed, pod: Pod) -> Status | None:
        """An extender that binds takes the place of the Bind plugins for the pods it is interested in (facts 1.5)."""
        for extender in assumed.framework.handle.extenders:
            if extender.binds() and extender.is_interested(pod):
                try:
                    await extender.bind(pod, assumed.node_name)
                except ExtenderError as failure:
                    if not extender.ignorable:
                        raise
                    log.warning("extender %s did not bind pod %s, the plugins do: %s", extender.name, pod.key, failure)
                else:
                    return None
        return await assumed.framework.run_bind(assumed.state, pod, assumed.node_name)

    async def _after_error(self, assumed: Assumed, failure: Exception) -> Status | None:
        """None where the pod turns out to be bound as we wanted it."""
        client, uid = assumed.framework.handle.client, assumed.pod_info.uid
        if client is None:
            return error(str(failure))

        def undecided() -> bool:
            return self._cache.is_assumed(uid)

        verdict = await judge(failure, assumed.item.pod, assumed.node_name, client, undecided)
        if verdict is Verdict.BOUND or self._cache.is_on_node(uid, assumed.node_name):
            return None
        assumed.verdict = verdict
        if verdict is Verdict.DROP or is_conflict(failure):
            self._metrics.bind_conflicts.inc()
        return error(str(failure))

    def _undo(self, assumed: Assumed) -> None:
        """Give back what was taken, and let the pods know that wait for it."""
        assumed.framework.run_unreserve(assumed.state, assumed.pod_info.pod, assumed.node_name)
        if self._cache.forget_pod(assumed.pod_info):
            self._queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, assumed.pod_info.pod, None)

    def _drop(self, assumed: Assumed, status: Status) -> None:
        """The pod is bound elsewhere, leaving, gone or replaced: nothing is written over it."""
        log.info("pod %s is left alone: %s", assumed.pod_info.key, status.message)
        self._undo(assumed)
        uid = assumed.item.uid
        self._queue.nominator.delete(uid)
        self._queue.done(uid)
        self._patches.drop(uid)
        self.left_alone.add(uid)

    def _fail(self, assumed: Assumed, status: Status) -> None:
        self._undo(assumed)
        at_once = status.rejected and not status.plugin
        if assumed.verdict is Verdict.AT_ONCE:
            # Whoever meets conflict after conflict waits as after any error.
            at_once = assumed.item.consecutive_errors < MAX_CONFLICTS_IN_A_ROW
        plugins = frozenset({status.plugin} if status.rejected and status.plugin else ())
        pending = plugins if status.code is Code.PENDING else frozenset()
        message = refused_where_chosen(status) if plugins else status.message
        failure = Failure(message, status.rejected, plugins, pending, nominated_node="", at_once=at_once)
        log.log(logging.INFO if status.rejected else logging.WARNING, "pod %s was not bound to %s: %s",
                assumed.pod_info.key, assumed.node_name, status.message)  # fmt: skip
        result = "unschedulable" if status.rejected else "error"
        self._metrics.schedule_attempts.labels(result, assumed.framework.profile).inc()
        self._metrics.attempt_duration.labels(result, assumed.framework.profile).observe(
            perf_counter() - assumed.started
        )
        self._failures.handle(assumed.item, failure)
