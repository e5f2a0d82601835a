"""Pod groups in an offline simulation: the members of a group are decided together, by the scheduler's own group cycle.

Called by the simulation, which owns cache, nominator and frameworks, and puts placed pods where they belong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from kube.api.core import Pod
from scheduler.cache import SchedulerCache
from scheduler.failure import Failure
from scheduler.framework.pod_groups import Groups, PodGroups, group_key
from scheduler.framework.runtime import Framework
from scheduler.framework.status import Status
from scheduler.pod_group_cycle import PodGroupCycle
from scheduler.pod_group_trial import GroupAttempt, Member, Outcome, Watch
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.scheduling_cycle import Attempt
from scheduler.snapshot.pod_info import PodInfo
from simulator.results import PodResult, gated_result

MIXTURE = "all pods in a single pod group should have the same .spec.schedulerName set, got: "


class Side(Protocol):
    """What groups need of the simulation."""

    cache: SchedulerCache
    frameworks: dict[str, Framework]

    def profile_of(self, pod: Pod) -> str | None:
        """The profile that a pod belongs to."""

    def percentage_of(self, profile: str) -> int:
        """percentageOfNodesToScore of a profile."""

    def place(self, info: PodInfo, node: str, attempt: Attempt) -> Status | None:
        """The pod is on the node from now on, unless plugins refuse it after all."""

    def nominate(self, info: PodInfo, node: str) -> None:
        """The pod will have a place on the node."""

    def leave_queue(self, queue: SchedulingQueue, item: QueuedPodInfo, node: str) -> None:
        """A popped pod has its node."""

    def requeue(self, queue: SchedulingQueue, item: QueuedPodInfo) -> None:
        """A popped pod has to wait."""

    def evict(self, queue: SchedulingQueue, victims: Sequence[PodInfo]) -> None:
        """The victims are gone at once."""

    def unclaimed(self, pod: Pod) -> PodResult:
        """What is said of a pod that no profile claims."""


class OfflineGroups:
    """Owner: the simulation."""

    def __init__(self, side: Side, watch: Watch) -> None:
        self._side = side
        self._cycle = PodGroupCycle(side.cache, watch)
        self.members = side.cache.snapshot.index(PodGroups)

    def know(self, infos: Iterable[PodInfo]) -> None:
        """Pods that wait, whether or not they are to be tried."""
        for info in infos:
            self.members.wait(info)

    def schedule(self, first: PodInfo, infos: Iterable[PodInfo]) -> dict[str, PodResult]:
        """uid -> result of each member of the pod's group among these pods, tried once."""
        key = group_key(first.pod)
        results: dict[str, PodResult] = {}
        free = []
        for info in infos:
            if group_key(info.pod) != key:
                continue
            profile = self._side.profile_of(info.pod)
            gated = self._side.frameworks[profile].run_pre_enqueue(info.pod) if profile is not None else None
            if profile is None:
                results[info.uid] = self._side.unclaimed(info.pod)
            elif gated is not None:
                results[info.uid] = gated_result(info.pod, gated.message)
            else:
                free.append(info)
        for member, result in self._decide(free) if free else ():
            results[member.info.uid] = result
            if result.node is not None and member.attempt is not None:
                self._side.place(member.info, result.node, member.attempt)
            elif result.nominated_node is not None:
                self._side.nominate(member.info, result.nominated_node)
        return results

    def attempts(self, queue: SchedulingQueue, first: QueuedPodInfo) -> list[tuple[QueuedPodInfo, PodResult]]:
        """The popped pod and all its siblings that can be tried."""
        items = {item.uid: item for item in queue.pop_siblings(first)}
        victims: list[PodInfo] = []
        results = []
        for member, result in self._decide([item.pod_info for item in items.values()]):
            item = items[member.info.uid]
            if result.node is not None and member.attempt is not None:
                self._side.place(member.info, result.node, member.attempt)
                self._side.leave_queue(queue, item, result.node)
            else:
                assert member.failure is not None, "no place and no reason"
                item.unschedulable_plugins = set(member.failure.unschedulable_plugins)
                item.pending_plugins = set(member.failure.pending_plugins)
                if result.nominated_node is not None:
                    self._side.nominate(member.info, result.nominated_node)
                self._side.requeue(queue, item)
                victims += member.victims
            results.append((item, result))
        self._side.evict(queue, victims)
        return results

    def _decide(self, infos: Sequence[PodInfo]) -> Iterator[tuple[Member, PodResult]]:
        """Members that are not gated, all at once. Placed ones are not counted on their nodes yet."""
        profiles = list(dict.fromkeys(self._side.profile_of(info.pod) or "" for info in infos))
        if len(profiles) > 1:
            attempt = _refused(infos, f'{MIXTURE}"{profiles[0]}" and "{profiles[1]}"')
        else:
            framework = self._side.frameworks[profiles[0]]
            ordered = sorted(infos, key=lambda info: -info.priority)
            group = Groups(framework.handle).of(ordered[0].pod)
            attempt = self._cycle.decide(framework, ordered, group, self._side.percentage_of(profiles[0]))
            self._let_go(framework, attempt)
        by_uid: Mapping[str, Member] = {member.info.uid: member for member in attempt.members}
        for info in infos:
            member = by_uid.get(info.uid) or Member(info)
            yield member, _result(member, attempt)

    def _let_go(self, framework: Framework, attempt: GroupAttempt) -> None:
        """Of placed members nothing is assumed or reserved any more: the simulation places them its own way."""
        for member in reversed(attempt.members):
            if attempt.outcome is Outcome.SCHEDULED and member.assumed is not None and member.attempt is not None:
                framework.run_unreserve(member.attempt.state, member.assumed.pod, member.node_name)
                self._side.cache.forget_pod(member.assumed)


def _refused(infos: Sequence[PodInfo], message: str) -> GroupAttempt:
    failure = Failure(message, rejected=False, nominated_node="")
    return GroupAttempt(Outcome.ERROR, [Member(info, failure=failure) for info in infos], message)


def _result(member: Member, attempt: GroupAttempt) -> PodResult:
    """What the watcher kept of the member's attempt, with what became of it in the end."""
    meta = member.info.pod.metadata
    kept = member.note if isinstance(member.note, PodResult) else PodResult(meta.namespace, meta.name)
    placed = attempt.outcome is Outcome.SCHEDULED and bool(member.node_name)
    if not placed and member.failure is None:
        member.failure = Failure(attempt.message, rejected=False, nominated_node="")
    return replace(
        kept,
        node=member.node_name if placed else None,
        nominated_node=None if placed else member.node_name or None,
        victims=tuple(victim.key for victim in member.victims),
        message=member.failure.message if member.failure is not None else "",
    )
