"""Scheduling of pod groups: from a popped member to its whole group bound, or back in the queue, with the reason on the
group object.

The part of the Scheduler that is there only where groups are scheduled as such (gate GenericWorkload). The decision is
`pod_group_cycle`'s; here is what happens before and after it.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any, Protocol

from kube.api.workload import PodGroup
from scheduler.cache import SchedulerCache
from scheduler.failure import SCHEDULER_ERROR, UNSCHEDULABLE, Failure, rfc3339
from scheduler.framework.pod_groups import Group, Groups
from scheduler.framework.runtime import Framework
from scheduler.metrics import Metrics
from scheduler.pod_group_cycle import PodGroupCycle
from scheduler.pod_group_trial import GroupAttempt, Member, Outcome
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.scheduling_cycle import Attempt
from scheduler.snapshot.pod_info import PodInfo
from scheduler.status_patches import StatusPatches

log = logging.getLogger(__name__)

#: the condition of 1.36, and that of 1.37
POD_GROUP_SCHEDULED = "PodGroupScheduled"
POD_GROUP_INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
SCHEDULED = "Scheduled"
#: up to here a try costs so little that any event that may help one member is worth it
SMALL_GROUP = 100
#: groups remembered as scheduled until the informer shows it
MAX_REMEMBERED = 10_000


class PodSide(Protocol):
    """What groups need of the Scheduler of single pods."""

    queue: SchedulingQueue
    cache: SchedulerCache
    frameworks: Mapping[str, Framework]
    metrics: Metrics

    def skip(self, item: QueuedPodInfo) -> bool:
        """Whether the pod is not to be scheduled any more."""

    def percentage_of(self, profile: str) -> int:
        """percentageOfNodesToScore of a profile."""

    def fail(self, item: QueuedPodInfo, failure: Failure, framework: Framework, started: float) -> None:
        """Back to the queue, with event and condition."""

    def note(self, item: QueuedPodInfo, framework: Framework, attempt: Attempt, started: float, message: str) -> None:
        """Into the decision log."""

    def bind_assumed(
        self, item: QueuedPodInfo, framework: Framework, attempt: Attempt, assumed_info: PodInfo, started: float
    ) -> None:
        """On to Permit and the binding cycle."""


class GroupConditions:
    """What is said on group objects. Owner: the Scheduler, whose task group runs it."""

    def __init__(
        self,
        send: Callable[[PodGroup, dict[str, Any]], Awaitable[None]],
        dropped: Callable[[], None],
        condition_type: str = POD_GROUP_SCHEDULED,
    ) -> None:
        self._patches = StatusPatches(send, dropped)
        self._type = condition_type
        #: UIDs of groups that were scheduled once: that is never taken back
        self._scheduled: OrderedDict[str, None] = OrderedDict()

    async def run(self) -> None:
        """Write until cancelled."""
        await self._patches.run()

    @property
    def idle(self) -> bool:
        """Nothing is left to write."""
        return self._patches.idle

    def report(self, obj: PodGroup, outcome: Outcome, message: str) -> None:
        """Say what became of the group, where that is news."""
        uid = obj.metadata.uid or obj.key
        old = next((c for c in obj.status.conditions if c.type == self._type), None)
        if outcome is Outcome.SCHEDULED:
            status, reason = "True", SCHEDULED
            self._scheduled[uid] = None
            if len(self._scheduled) > MAX_REMEMBERED:
                self._scheduled.popitem(last=False)
        elif uid in self._scheduled or (old is not None and old.status == "True"):
            return
        else:
            status, reason = "False", SCHEDULER_ERROR if outcome is Outcome.ERROR else UNSCHEDULABLE
        if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
            return
        since = old.last_transition_time if old is not None and old.status == status else rfc3339(time.time())
        condition = {
            "type": self._type,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
            **({"observedGeneration": obj.metadata.generation} if obj.metadata.generation else {}),
        }
        others = [_document(c) for c in obj.status.conditions if c.type != self._type]
        self._patches.put(uid, obj, {"conditions": [*others, condition]})


def _document(condition: Any) -> dict[str, Any]:
    document = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    return document | ({"observedGeneration": condition.observed_generation} if condition.observed_generation else {})


class GroupScheduling:
    """Owner: Scheduler."""

    def __init__(self, side: PodSide, conditions: GroupConditions) -> None:
        self._side = side
        self._cycle = PodGroupCycle(side.cache)
        self._groups = {name: Groups(framework.handle) for name, framework in side.frameworks.items()}
        self.conditions = conditions

    def schedule(self, first: QueuedPodInfo) -> None:
        """One group cycle for the popped pod and all its siblings that can be tried."""
        started = perf_counter()
        items = []
        for item in self._side.queue.pop_siblings(first):
            if self._side.skip(item):
                self._side.queue.done(item.uid)
            else:
                items.append(item)
        if not items:
            return
        items.sort(key=lambda item: (-item.pod_info.priority, item.initial_attempt_timestamp or 0.0))
        names = list(dict.fromkeys(item.pod.spec.scheduler_name for item in items))
        if len(names) > 1:
            self._refuse_mixture(items, names, started)
            return
        framework = self._side.frameworks[names[0]]
        group = self._groups[names[0]].of(items[0].pod)
        self._decide(items, framework, group, started)

    def _refuse_mixture(self, items: list[QueuedPodInfo], names: list[str], started: float) -> None:
        text = "all pods in a single pod group should have the same .spec.schedulerName set, got: "
        failure = Failure(f'{text}"{names[0]}" and "{names[1]}"', rejected=False, nominated_node="")
        for item in items:
            self._side.fail(item, failure, self._side.frameworks[item.pod.spec.scheduler_name], started)

    def _decide(self, items: list[QueuedPodInfo], framework: Framework, group: Group | None, started: float) -> None:
        infos = [item.pod_info for item in items]
        percentage = self._side.percentage_of(framework.profile)
        try:
            attempt = self._cycle.decide(framework, infos, group, percentage)
        except Exception as bug:  # a plugin's bug costs its group a retry, never the loop
            log.exception("scheduling the group of pod %s failed", infos[0].key)
            failure = Failure(f"{type(bug).__name__}: {bug}", rejected=False, nominated_node="")
            members = [Member(info, failure=failure) for info in infos]
            attempt = GroupAttempt(Outcome.ERROR, members, failure.message)
        self._side.metrics.group_algorithm_duration.observe(perf_counter() - started)
        by_uid = {member.info.uid: member for member in attempt.members}
        sit_out = _who_sits_out(attempt, items)
        for item in items:
            if item.uid in sit_out:
                self._side.queue.done(item.uid)
            self._settle(item, by_uid.get(item.uid), attempt, framework, started)
        result = attempt.outcome.value
        self._side.metrics.group_attempts.labels(result, framework.profile).inc()
        self._side.metrics.group_attempt_duration.labels(result, framework.profile).observe(perf_counter() - started)
        if group is not None and group.obj is not None:
            self.conditions.report(group.obj, attempt.outcome, attempt.message)

    def _settle(
        self,
        item: QueuedPodInfo,
        member: Member | None,
        attempt: GroupAttempt,
        framework: Framework,
        started: float,
    ) -> None:
        """One member: on to its bind, or back to the queue."""
        if member is not None and attempt.outcome is Outcome.SCHEDULED and member.assumed is not None:
            assert member.attempt is not None, "placed without an attempt"
            self._side.note(item, framework, member.attempt, started, "")
            self._side.bind_assumed(item, framework, member.attempt, member.assumed, started)
            return
        failure = member.failure if member is not None else None
        if failure is None:
            # An error ended the try before this member's turn.
            failure = Failure(attempt.message, rejected=False, nominated_node="")
        if member is not None and member.attempt is not None:
            member.attempt.node_name = ""
            self._side.note(item, framework, member.attempt, started, failure.message)
        self._side.fail(item, failure, framework, started)


def _who_sits_out(attempt: GroupAttempt, items: list[QueuedPodInfo]) -> set[str]:
    """UIDs of members that come back when their backoff is over, whatever happens, and bring the others along.

    No event tells for sure that a whole group fits (facts B2). Of a small group one member is enough, rather one that
    fits: the others may be woken before by an event that helps them. A large one waits as a whole.
    """
    if attempt.outcome not in (Outcome.UNSCHEDULABLE, Outcome.ERROR):
        return set()
    if len(items) > SMALL_GROUP:
        return {item.uid for item in items}
    fitting = (member.info.uid for member in attempt.members if member.waits_for)
    return {next(fitting, items[0].uid)}
