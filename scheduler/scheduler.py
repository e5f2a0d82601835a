"""The Scheduler: pops pods, runs the scheduling cycle, and starts a binding cycle for each pod it placed.

Owner of cache, queue and the profiles' frameworks; built by the wiring. The scheduling cycle is synchronous; the
loop gives way to I/O by time slice, not by pod, and waits when too many binds are in flight.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from kube.api.core import Pod
from scheduler.binding_cycle import Assumed, BindingCycle, overfull
from scheduler.cache import SchedulerCache
from scheduler.decision_log import Decision, DecisionLog
from scheduler.extender_cycle import schedule_pod_with_extenders
from scheduler.failure import Failure, FailureHandler, failure_of
from scheduler.framework.diagnosis import refused_where_chosen
from scheduler.framework.extender import Extender
from scheduler.framework.handle import EventFunction
from scheduler.framework.pod_groups import group_key
from scheduler.framework.runtime import Framework
from scheduler.framework.status import Code, Status
from scheduler.metrics import Metrics
from scheduler.pod_group_scheduling import GroupConditions, GroupScheduling
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.scheduling_queue import (
    FLUSH_BACKOFF_PERIOD,
    FLUSH_UNSCHEDULABLE_PERIOD,
    SchedulingQueue,
)
from scheduler.scheduling_cycle import Attempt, schedule_pod
from scheduler.snapshot.pod_info import PodInfo, uid_of
from scheduler.status_patches import StatusPatches

log = logging.getLogger(__name__)

#: the longest the loop schedules without serving I/O, seconds
TIME_SLICE = 0.005
#: binds in flight at the most; then the loop waits for one to end
MAX_BINDS_IN_FLIGHT = 200
GAUGES_PERIOD = 1.0
#: turns of the event loop that rejected pods get to give their room back; they need three
ROUNDS_TO_LET_GO = 10
#: how long binds in flight may take to end after `stop`; a pod may wait on Permit for a quarter of an hour
SHUTDOWN_TIMEOUT = 10.0


@dataclass(slots=True)
class Parts:
    """What a Scheduler is made of."""

    cache: SchedulerCache
    queue: SchedulingQueue
    frameworks: Mapping[str, Framework]
    metrics: Metrics
    patches: StatusPatches
    event: EventFunction
    #: (namespace, name) -> the pod as the informer has it
    current_pod: Callable[[str, str], Pod | None]
    #: percentageOfNodesToScore by profile, for plugins that look at one node at a time
    percentages: Mapping[str, int]
    #: what the conditions of groups are written through; None where pods are scheduled one by one
    group_conditions: GroupConditions | None = None


class Scheduler:
    """The loop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.cache = parts.cache
        self.queue = parts.queue
        self.frameworks = parts.frameworks
        self.metrics = parts.metrics
        self.decisions = DecisionLog()
        self._failures = FailureHandler(
            parts.queue, parts.cache.snapshot.shapes, parts.current_pod, parts.patches, parts.event
        )
        self._binding = BindingCycle(
            parts.cache, parts.queue, self._failures, parts.patches, parts.metrics, self._note_bound
        )
        self._groups = GroupScheduling(self, parts.group_conditions) if parts.group_conditions is not None else None
        #: one for all profiles
        self._waiting = next(iter(parts.frameworks.values())).handle.waiting_pods
        self._binds: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._stopping = False
        #: a cycle waits for its extenders
        self._asking = False
        #: (plugin, profile) of the unschedulable_pods series there are
        self._refusing: set[tuple[str, str]] = set()
        #: corrections of the cache, and events dropped by the queue, that the metrics count already
        self._corrections = self._dropped = 0

    # --- life ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Schedule until `stop` or cancellation. After `stop` the binds in flight end, or are undone in time."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            helpers = [
                group.create_task(self._parts.patches.run()),
                *([group.create_task(self._groups.conditions.run())] if self._groups is not None else ()),
                group.create_task(self._every(FLUSH_BACKOFF_PERIOD, self.queue.flush_backoff_completed)),
                group.create_task(self._every(FLUSH_UNSCHEDULABLE_PERIOD, self.queue.flush_unschedulable_leftover)),
                group.create_task(self._every(GAUGES_PERIOD, self.update_gauges)),
            ]
            await self._loop()
            if self._binds:
                await asyncio.wait(self._binds, timeout=SHUTDOWN_TIMEOUT)
            for task in (*helpers, *self._binds):
                task.cancel()
        self._group = None

    def stop(self) -> None:
        """No new cycles."""
        self._stopping = True
        self.queue.close()
        self._room.set()

    def percentage_of(self, profile: str) -> int:
        """percentageOfNodesToScore of a profile."""
        return self._parts.percentages.get(profile, 0)

    @property
    def left_alone(self) -> set[str]:
        """UIDs of pods that are bound elsewhere or gone, which the informer has yet to show."""
        return self._binding.left_alone

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a plugin's asynchronous work beside the loop; it counts as a bind in flight."""
        if self._group is None:
            work.close()
            return
        self._track(self._group.create_task(self._guarded(work)))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            log.exception("a plugin's work beside the loop failed")

    async def _every(self, period: float, work: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(period)
            work()

    async def _loop(self) -> None:
        started = perf_counter()
        while not self._stopping:
            item = self.queue.pop_nowait()
            if item is None:
                item = await self.queue.pop()
                started = perf_counter()
                if item is None:
                    return
            framework = self.frameworks.get(item.pod.spec.scheduler_name)
            extenders = framework.interested_extenders(item.pod) if framework is not None else ()
            if framework is not None and extenders:
                await self._schedule_one_with_extenders(item, framework, extenders)
                started = perf_counter()
            elif self._groups is not None and group_key(item.pod):
                self._groups.schedule(item)
            else:
                self.schedule_one(item)
            if self._waiting.leaving:
                await self._let_go()
                started = perf_counter()
            if len(self._binds) >= MAX_BINDS_IN_FLIGHT:
                await self._wait_for_room()
                started = perf_counter()
            elif perf_counter() - started > TIME_SLICE:
                await asyncio.sleep(0)
                started = perf_counter()

    async def _let_go(self) -> None:
        """Pods that were told to wait no longer give their room back before the next one looks for some."""
        for _ in range(ROUNDS_TO_LET_GO):
            if not self._waiting.leaving:
                return
            await asyncio.sleep(0)

    async def _wait_for_room(self) -> None:
        while len(self._binds) >= MAX_BINDS_IN_FLIGHT and not self._stopping:
            self._room.clear()
            await self._room.wait()

    def _track(self, task: asyncio.Task[None]) -> None:
        self._binds.add(task)
        task.add_done_callback(self._untrack)

    def _untrack(self, task: asyncio.Task[None]) -> None:
        self._binds.discard(task)
        self._room.set()

    # --- one pod ------------------------------------------------------------------------------------------

    def schedule_one(self, item: QueuedPodInfo) -> None:
        """One scheduling cycle; a placed pod goes on in a task of its own."""
        started = perf_counter()
        framework = self.frameworks.get(item.pod.spec.scheduler_name)
        if framework is None or self.skip(item):
            self.queue.done(item.uid)
            return
        try:
            attempt = schedule_pod(framework, item.pod_info, self.percentage_of(framework.profile))
            failure = None if attempt.node_name else failure_of(attempt)
        except Exception as bug:  # a plugin's bug costs its pod a retry, never the loop
            self._fail_by_bug(item, framework, bug, started)
            return
        self._conclude(item, framework, attempt, failure, started)

    async def _schedule_one_with_extenders(
        self, item: QueuedPodInfo, framework: Framework, extenders: Sequence[Extender]
    ) -> None:
        """The same for a pod that extenders have a say in; no other cycle runs while they are asked."""
        started = perf_counter()
        if self.skip(item):
            self.queue.done(item.uid)
            return
        percentage = self.percentage_of(framework.profile)
        self._asking = True
        try:
            attempt = await schedule_pod_with_extenders(framework, item.pod_info, extenders, percentage)
            failure = None if attempt.node_name else failure_of(attempt)
        except Exception as bug:
            self._fail_by_bug(item, framework, bug, started)
            return
        finally:
            self._asking = False
        if self._was_lost(item):
            self.queue.nominator.delete(item.uid)
            self.queue.done(item.uid)
            return
        self._conclude(item, framework, attempt, failure, started)

    def _was_lost(self, item: QueuedPodInfo) -> bool:
        """While extenders were asked the pod was bound by somebody else, deleted or replaced."""
        current = self._parts.current_pod(item.pod.metadata.namespace, item.pod.metadata.name)
        gone = current is None or uid_of(current) != item.uid or current.metadata.deletion_timestamp is not None
        return gone or item.uid in self.cache.pods

    def _fail_by_bug(self, item: QueuedPodInfo, framework: Framework, bug: Exception, started: float) -> None:
        log.error("scheduling pod %s failed", item.pod_info.key, exc_info=bug)
        text = f"{type(bug).__name__}: {bug}"
        self.fail(item, Failure(text, rejected=False, nominated_node=""), framework, started)

    def _conclude(
        self, item: QueuedPodInfo, framework: Framework, attempt: Attempt, failure: Failure | None, started: float
    ) -> None:
        self.metrics.algorithm_duration.observe(perf_counter() - started)
        self.note(item, framework, attempt, started, failure.message if failure is not None else "")
        if failure is None:
            self._assume(item, framework, attempt, started)
        else:
            self.fail(item, failure, framework, started)

    def skip(self, item: QueuedPodInfo) -> bool:
        """Pods that are being deleted are not scheduled, and neither are pods that are assumed already."""
        pod = item.pod
        if pod.metadata.deletion_timestamp is not None:
            note = f"skip schedule deleting pod: {pod.metadata.namespace}/{pod.metadata.name}"
            self._parts.event(pod, None, "Warning", "FailedScheduling", "Scheduling", note)
            return True
        return self.cache.is_assumed(item.uid)

    def _assume(self, item: QueuedPodInfo, framework: Framework, attempt: Attempt, started: float) -> None:
        node_name, state = attempt.node_name, attempt.state
        assumed_info = item.pod_info.on_node(node_name)
        self.cache.assume_pod(assumed_info, node_name)
        # Counted on its node now: as a nominated pod it would count twice.
        self.queue.nominator.delete(item.uid)
        refused = framework.run_reserve(state, assumed_info.pod, node_name)
        if refused is not None:
            self._unassume(item, framework, attempt, assumed_info, refused, started)
            return
        self.bind_assumed(item, framework, attempt, assumed_info, started)

    def bind_assumed(
        self, item: QueuedPodInfo, framework: Framework, attempt: Attempt, assumed_info: PodInfo, started: float
    ) -> None:
        """The pod is assumed and reserved: what Permit says, and on to the binding cycle."""
        state, node_name = attempt.state, assumed_info.pod.spec.node_name
        permit = framework.run_permit(state, assumed_info, node_name)
        waits = permit.code is Code.WAIT
        if not permit.ok and not waits:
            self._unassume(item, framework, attempt, assumed_info, permit, started)
            return
        over = overfull(self.cache.nodes.get(node_name), assumed_info)
        assumed = Assumed(framework, state, item, assumed_info, node_name, over, waits, started)
        assert self._group is not None, "the scheduler is not running"
        self._track(self._group.create_task(self._binding.run(assumed)))

    def _unassume(
        self,
        item: QueuedPodInfo,
        framework: Framework,
        attempt: Attempt,
        assumed_info: PodInfo,
        refused: Status,
        started: float,
    ) -> None:
        framework.run_unreserve(attempt.state, assumed_info.pod, assumed_info.pod.spec.node_name)
        self.cache.forget_pod(assumed_info)
        plugins = frozenset({refused.plugin}) if refused.rejected else frozenset()
        pending = plugins if refused.code is Code.PENDING else frozenset()
        message = refused_where_chosen(refused) if refused.rejected else refused.message
        self.fail(item, Failure(message, refused.rejected, plugins, pending, ""), framework, started)

    def fail(self, item: QueuedPodInfo, failure: Failure, framework: Framework, started: float) -> None:
        result = "unschedulable" if failure.rejected else "error"
        self.metrics.schedule_attempts.labels(result, framework.profile).inc()
        self.metrics.attempt_duration.labels(result, framework.profile).observe(perf_counter() - started)
        if not failure.rejected:
            log.error("scheduling pod %s ended in an error: %s", item.pod_info.key, failure.message)
        self._failures.handle(item, failure)

    # --- what is told -------------------------------------------------------------------------------------

    def note(self, item: QueuedPodInfo, framework: Framework, attempt: Attempt, started: float, message: str) -> None:
        meta, post = item.pod.metadata, attempt.post_filter
        self.decisions.add(
            Decision(
                time=time.time(),
                namespace=meta.namespace,
                name=meta.name,
                uid=item.uid,
                profile=framework.profile,
                attempt=item.attempts,
                result="scheduled" if attempt.node_name else "error" if attempt.error else "unschedulable",
                node=attempt.node_name,
                feasible=attempt.feasible_count,
                nodes=attempt.node_count,
                seconds=perf_counter() - started,
                message=message,
                nominated_node=(post.nominated_node_name or "") if post is not None else "",
                victims=tuple(v.key for v in post.victims) if post is not None else (),
            )
        )

    def _note_bound(self, assumed: Assumed) -> None:
        item, profile = assumed.item, assumed.framework.profile
        now = self.queue.now()
        self.metrics.schedule_attempts.labels("scheduled", profile).inc()
        self.metrics.attempt_duration.labels("scheduled", profile).observe(perf_counter() - assumed.started)
        self.metrics.pod_attempts.observe(item.attempts)
        if item.initial_attempt_timestamp is not None:
            attempts = str(item.attempts) if item.attempts < 15 else "15+"
            self.metrics.sli_duration.labels(attempts).observe(now - item.initial_attempt_timestamp)
        if item.flushed:
            self.metrics.scheduled_after_flush.inc()
        pod = item.pod
        note = f"Successfully assigned {pod.metadata.namespace}/{pod.metadata.name} to {assumed.node_name}"
        self._parts.event(pod, None, "Normal", "Scheduled", "Binding", note)

    def update_gauges(self) -> None:
        """Pool and cache sizes, and what is added up elsewhere; called every second and before each scrape."""
        for framework in self.frameworks.values():
            self.metrics.count_plugins(framework.profile, framework.meter.take_counts())
        for queue, length in self.queue.lengths().items():
            self.metrics.pending_pods.labels(queue).set(length)
        self._update_unschedulable()
        self.metrics.cache_corrections.inc(self.cache.corrections - self._corrections)
        self._corrections = self.cache.corrections
        self.metrics.dropped_in_flight_events.inc(self.queue.dropped_events() - self._dropped)
        self._dropped = self.queue.dropped_events()
        self.metrics.cache_size.labels("nodes").set(self.cache.node_count())
        self.metrics.cache_size.labels("pods").set(len(self.cache.pods))
        self.metrics.cache_size.labels("assumed_pods").set(len(self.cache.assumed))
        self.metrics.pending_api_calls.labels("pod_status_patch").set(self._parts.patches.pending)
        self.metrics.in_flight_events.labels("").set(self.queue.in_flight_events())
        self.metrics.goroutines.labels("binding").set(len(self._binds))

    def _update_unschedulable(self) -> None:
        """A pod counts for each plugin that refused it, for as long as it waits in the pool."""
        counts: Counter[tuple[str, str]] = Counter()
        for (profile, plugins), number in self.queue.rejections().items():
            counts.update({(plugin, profile): number for plugin in plugins})
        for labels in self._refusing - counts.keys():
            self.metrics.unschedulable_pods.labels(*labels).set(0)
        for labels, count in counts.items():
            self.metrics.unschedulable_pods.labels(*labels).set(count)
        self._refusing |= counts.keys()

    @property
    def idle(self) -> bool:
        """Nothing to try now and nothing in flight."""
        lengths = self.queue.lengths()
        busy = lengths["active"] or lengths["backoff"] or self._binds or self._asking
        return not busy and self._parts.patches.idle and (self._groups is None or self._groups.conditions.idle)
