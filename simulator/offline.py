"""Offline simulation: the scheduler's own cache, queue and cycle, fed from files.

What differs from the service: binds succeed at once, victims of a preemption are gone at once, and time stands still,
so no backoff is waited for, unless pods wait for each other (`offline_permit`). Results are values for whoever prints
them.

Owner: the command that runs it. No event loop is needed: a scheduling cycle never awaits.
"""

from __future__ import annotations

import random
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from config.types import Configuration
from kube.api.core import Pod
from scheduler.cache import SchedulerCache
from scheduler.extender_cycle import schedule_pod_with_extenders
from scheduler.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    Action,
    ClusterEvent,
    EventResource,
)
from scheduler.framework.extender import Extender
from scheduler.framework.handle import Handle
from scheduler.framework.pod_groups import group_key
from scheduler.framework.registry import PluginRegistry, build_framework
from scheduler.framework.runtime import Framework
from scheduler.framework.status import Code, Status
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.queue.hints import ProfileHooks
from scheduler.queue.nominator import Nominator
from scheduler.queue.profile_hooks import hooks_of
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.scheduling_queue import QueueConfig, SchedulingQueue
from scheduler.scheduling_cycle import Attempt, schedule_pod
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Snapshot
from simulator import device_claims
from simulator.attempt_detail import brief, detailed, devices_of, not_placed
from simulator.listers import ObjectListers
from simulator.load import ClusterObjects
from simulator.offline_groups import OfflineGroups
from simulator.offline_permit import Held, OfflinePermit
from simulator.results import NodeResult, PodResult, gated_result

__all__ = ["Extenders", "NodeResult", "PodResult", "Simulation", "woken_by"]

#: decides on whole groups here, so nobody waits for it
GROUPS = "GangScheduling"
RESOURCE_CLAIM_FREED = ClusterEvent(EventResource.RESOURCE_CLAIM, Action.UPDATE_OTHER, "ResourceClaimUpdate")
#: attempts of one pod before a simulation settles for its last answer
MAX_ATTEMPTS = 10
#: the same where time passes: with their backoffs, several minutes, so that patience ends before it does
MAX_ATTEMPTS_IN_TIME = 30


class Extenders(Protocol):
    """The extenders of a configuration, and a way to wait for them: offline there is no event loop."""

    def of(self, snapshot: Snapshot) -> Sequence[Extender]:
        """The extenders, for this snapshot."""

    def ask(self, cycle: Coroutine[Any, Any, Attempt]) -> Attempt:
        """Run a cycle to its end."""


class Simulation:
    """A cluster from files and the profiles that decide on it."""

    def __init__(  # noqa: PLR0913 - everything that decides a simulation
        self,
        objects: ClusterObjects,
        configuration: Configuration,
        registry: PluginRegistry,
        gates: Mapping[str, bool],
        *,
        seed: int = 0,
        any_scheduler_name: bool = True,
        detail: bool = True,
        extenders: Extenders | None = None,
    ) -> None:
        """`detail`: whether results name each node, with scores and reasons; it costs more than the decision."""
        self.snapshot = Snapshot()
        self.cache = SchedulerCache(self.snapshot)
        self.nominator = Nominator()
        self._pending = objects.pending
        self._detail = detail
        self._extenders = extenders
        #: without a configuration file every pod is judged by the one default profile
        self._any_name = any_scheduler_name
        self._percentages = {
            p.scheduler_name: p.percentage_of_nodes_to_score or configuration.percentage_of_nodes_to_score
            for p in configuration.profiles
        }
        self.frameworks = self._build(objects, configuration, registry, gates, random.Random(seed))
        self._hooks = {name: hooks_of(framework) for name, framework in self.frameworks.items()}
        self._default = next(iter(self.frameworks))
        #: plugins whose refusals an added pod may undo, and the pods in the pool that they refused
        self._near_others = {p for h in self._hooks.values() for p in woken_by(h, ASSIGNED_POD_ADD)}
        self._wait_for_others: set[str] = set()
        #: failures that nothing has changed since, by what decides them (without detail only)
        self._failures: dict[tuple[Any, ...], tuple[PodResult, Attempt]] = {}
        #: there where members of a group are decided together
        self._groups: OfflineGroups | None = None
        if gates.get("GenericWorkload") or gates.get("GangScheduling"):
            self._groups = OfflineGroups(self, self._result)
        #: there where plugins let pods wait for each other
        self._permit: OfflinePermit | None = None
        self._max_attempts = MAX_ATTEMPTS
        if any(plugin.name != GROUPS for framework in self.frameworks.values() for plugin in framework.permit):
            self._permit = OfflinePermit(self)
            self._max_attempts = MAX_ATTEMPTS_IN_TIME
        self._fill(objects)

    def _build(
        self,
        objects: ClusterObjects,
        configuration: Configuration,
        registry: PluginRegistry,
        gates: Mapping[str, bool],
        rng: random.Random,
    ) -> dict[str, Framework]:
        listers = self.listers = ObjectListers(objects)
        extenders = self._extenders.of(self.snapshot) if self._extenders is not None else ()
        frameworks = {}
        for profile in configuration.profiles:
            handle = Handle(
                snapshot=self.snapshot,
                profile=profile.scheduler_name,
                listers=listers,
                nominator=self.nominator,
                waiting_pods=WaitingPods(),
                feature_gates=gates,
                random=rng,
                now=time.time,
                extenders=extenders,
            )
            frameworks[profile.scheduler_name] = build_framework(profile, registry, handle)
        return frameworks

    def _fill(self, objects: ClusterObjects) -> None:
        for node in objects.nodes:
            self.cache.add_node(node)
        for pod in objects.running:
            self.cache.add_pod(pod)
        for pod in objects.nominated:
            self.nominator.add(self.snapshot.shapes.pod_info(pod))
        if self._groups is not None:
            self._groups.know(self._info(pod) for pod in objects.pending if self.profile_of(pod) is not None)

    # --- asking -------------------------------------------------------------------------------------------

    def judge_alone(self, pods: Iterable[Pod]) -> Iterator[PodResult]:
        """Each pod by itself; none is placed before the next is judged."""
        infos = self._known(pods)
        for info in infos:
            yield self._once(info)[0]

    def schedule(self, pods: Iterable[Pod]) -> Iterator[PodResult]:
        """These pods in this order, once each; a placed or nominated one counts for the next."""
        infos = self._known(pods)
        done: dict[str, PodResult] = {}
        for info in infos:
            if self._groups is not None and group_key(info.pod):
                if info.uid not in done:
                    done |= self._groups.schedule(info, infos)
            else:
                done[info.uid] = self._scheduled(info)
            if self._permit is None:
                yield done[info.uid]
            else:
                done |= self._permit.released()
        if self._permit is not None:
            while self._permit.pass_time(None):
                done |= self._permit.released()
            yield from (done[info.uid] for info in infos)

    def _scheduled(self, info: PodInfo) -> PodResult:
        result, attempt = self._once(info)
        if result.node is not None and attempt is not None:
            refused = self._take_place(info, result, attempt, None)
            result = result if refused is None else not_placed(result, refused)
        elif result.nominated_node is not None:
            self.nominator.add(info, result.nominated_node)
        return result

    def run(self) -> Iterator[PodResult]:
        """Every pending pod in queue order, retried when another pod's placement or eviction may help."""
        queue = self.queue()
        for pod in self._pending:
            if self.profile_of(pod) is not None:
                queue.add(self._info(pod))
            else:
                yield self.unclaimed(pod)
        last: dict[str, PodResult] = {}
        if self._permit is not None:
            self._permit.serve(queue)
        while True:
            first = queue.pop_nowait()
            attempts = self._attempts(queue, first) if first is not None else []
            if first is None and (self._permit is None or not self._permit.pass_time(queue)):
                break
            settled = self._permit.settled(queue) if self._permit is not None else ()
            for item, found in (*attempts, *settled):
                victims = last[item.uid].victims if item.uid in last else ()
                result = replace(found, victims=tuple(dict.fromkeys((*victims, *found.victims))))
                if result.node is not None:
                    last.pop(item.uid, None)
                    yield result
                else:
                    last[item.uid] = result
        yield from last.values()
        for item, pool in queue.pending_pods():
            if pool == "gated" and item.uid not in last:
                yield gated_result(item.pod, item.gating_message)

    def nodes(self) -> list[NodeResult]:
        """The nodes as they are now."""
        return [
            NodeResult(info.name, len(info.pods), dict(info.requested), dict(info.allocatable))
            for info in self.snapshot.node_infos()
        ]

    # --- the parts ----------------------------------------------------------------------------------------

    def _known(self, pods: Iterable[Pod]) -> Iterable[PodInfo]:
        """The pods; where there are groups, their siblings have heard of them before the first is tried."""
        if self._groups is None and self._permit is None:
            return (self._info(pod) for pod in pods)
        infos = [self._info(pod) for pod in pods]
        if self._groups is not None:
            self._groups.know(infos)
        for info in infos:
            self.listers("Pod").indexer.add(info.pod)
        return infos

    def _info(self, pod: Pod) -> PodInfo:
        return self.snapshot.shapes.pod_info(device_claims.with_claims(self.listers, pod))

    def profile_of(self, pod: Pod) -> str | None:
        """The profile that a pod belongs to, None where no profile claims it."""
        if self._any_name:
            return self._default
        return pod.spec.scheduler_name if pod.spec.scheduler_name in self.frameworks else None

    def percentage_of(self, profile: str) -> int:
        """percentageOfNodesToScore of a profile."""
        return self._percentages[profile]

    def _hooks_of(self, pod: Pod) -> ProfileHooks | None:
        profile = self.profile_of(pod)
        return None if profile is None else self._hooks[profile]

    def queue(self) -> SchedulingQueue:
        """A queue of these profiles, still empty; its clock stands still unless pods wait for each other."""
        return SchedulingQueue(
            self._hooks_of,
            self.nominator,
            self.frameworks[self._default].queue_sort.sort_key,
            self._permit.now if self._permit is not None else lambda: 0.0,
            QueueConfig() if self._permit is not None else QueueConfig(initial_backoff=0, max_backoff=0),
            groups=self._groups.members if self._groups is not None else None,
        )

    def _once(self, info: PodInfo) -> tuple[PodResult, Attempt | None]:
        profile = self.profile_of(info.pod)
        if profile is None:
            return self.unclaimed(info.pod), None
        framework = self.frameworks[profile]
        gated = framework.run_pre_enqueue(info.pod)
        if gated is not None:
            return gated_result(info.pod, gated.message), None
        extenders = framework.interested_extenders(info.pod)
        if extenders:
            attempt = self._ask(framework, info, extenders)
            return self._result(framework, attempt), attempt
        key = None
        if self._permit is not None:
            # A failure is told to those that wait: each one counts.
            self._permit.attempted()
        elif not self._detail:
            key = _decided_by(profile, info)
        if key in self._failures:
            known, attempt = self._failures[key]
            return replace(known, namespace=info.pod.metadata.namespace, name=info.pod.metadata.name), attempt
        attempt = schedule_pod(framework, info, self._percentages[profile])
        result = self._result(framework, attempt)
        if key is not None and result.node is None and result.nominated_node is None:
            self._failures[key] = result, attempt
        return result, attempt

    def _ask(self, framework: Framework, info: PodInfo, extenders: Sequence[Extender]) -> Attempt:
        """A cycle that awaits the extenders, run to its end."""
        assert self._extenders is not None, "only they can be interested"
        percentage = self._percentages[framework.profile]
        return self._extenders.ask(schedule_pod_with_extenders(framework, info, extenders, percentage))

    def _attempts(self, queue: SchedulingQueue, first: QueuedPodInfo) -> list[tuple[QueuedPodInfo, PodResult]]:
        """Of the popped pod, or of its whole group."""
        if self._groups is not None and group_key(first.pod):
            return self._groups.attempts(queue, first)
        return [(first, self._queued_attempt(queue, first))]

    def _queued_attempt(self, queue: SchedulingQueue, item: QueuedPodInfo) -> PodResult:
        result, attempt = self._once(item.pod_info)
        if result.node is not None and attempt is not None:
            refused = self._take_place(item.pod_info, result, attempt, item)
            if refused is None:
                self.leave_queue(queue, item, result.node)
                return result
            if refused.code is Code.WAIT:
                return not_placed(result, refused)
            result = not_placed(result, refused)
            item.unschedulable_plugins = {refused.plugin} if refused.rejected else set()
        if attempt is not None and attempt.diagnosis is not None:
            item.unschedulable_plugins = set(attempt.diagnosis.unschedulable_plugins)
            item.pending_plugins = set(attempt.diagnosis.pending_plugins)
        if result.nominated_node is not None:
            self.nominate(item.pod_info, result.nominated_node)
        self.requeue(queue, item)
        if attempt is not None and attempt.post_filter is not None:
            self.evict(queue, attempt.post_filter.victims)
        return result

    def requeue(self, queue: SchedulingQueue, item: QueuedPodInfo) -> None:
        """Back to wait for what may help, unless it was tried often enough."""
        if not self._near_others.isdisjoint(item.rejectors):
            self._wait_for_others.add(item.uid)
        if item.attempts >= self._max_attempts or not item.rejectors:
            queue.done(item.uid)
        else:
            queue.add_unschedulable(item)

    def leave_queue(self, queue: SchedulingQueue, item: QueuedPodInfo, node: str) -> None:
        """A popped pod has its node; those that wait for pods like it may go on."""
        queue.done(item.uid)
        self.nominator.delete(item.uid)
        self._wait_for_others.discard(item.uid)
        if self._wait_for_others:
            queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_ADD, None, item.pod_info.on_node(node).pod)

    def evict(self, queue: SchedulingQueue, victims: Sequence[PodInfo]) -> None:
        """The victims are gone at once."""
        for victim in victims:
            self._failures.clear()
            self.cache.remove_pod(victim.uid)
            queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, victim.pod, None)
            for before, after in device_claims.let_go(self.listers("ResourceClaim"), victim.pod):
                queue.move_all_to_active_or_backoff_queue(RESOURCE_CLAIM_FREED, before, after)

    def nominate(self, info: PodInfo, node: str) -> None:
        """The pod will have a place on the node."""
        self._failures.clear()
        self.nominator.add(info, node)

    def _take_place(
        self, info: PodInfo, result: PodResult, attempt: Attempt, item: QueuedPodInfo | None
    ) -> Status | None:
        """None: the pod is on its node. WAIT: it has its room and waits. Else who refused it after all."""
        assert result.node is not None, "only asked for pods that fit"
        if self._permit is None:
            return self.place(info, result.node, attempt)
        refused = self.reserve(info, result.node, attempt)
        return refused or self._permit.ask(Held(self.framework_of(info), info, result.node, attempt, result, item))

    def framework_of(self, info: PodInfo) -> Framework:
        """Of the pod's profile, or of the first one."""
        return self.frameworks[self.profile_of(info.pod) or self._default]

    def place(self, info: PodInfo, node: str, attempt: Attempt) -> Status | None:
        """Count the pod on its node and let plugins note what it takes; a refusal of theirs undoes it."""
        refused = self.reserve(info, node, attempt)
        if refused is None:
            self.hold_devices(attempt, node)
        return refused

    def reserve(self, info: PodInfo, node: str, attempt: Attempt) -> Status | None:
        """The first half of it: the room is the pod's, but its claims do not say so yet."""
        framework = self.framework_of(info)
        placed = info.on_node(node).pod
        self._failures.clear()
        self.cache.add_pod(placed)
        refused = framework.run_reserve(attempt.state, placed, node)
        if refused is not None:
            framework.run_unreserve(attempt.state, placed, node)
            self.cache.remove_pod(info.uid)
        return refused

    def hold_devices(self, attempt: Attempt, node: str) -> None:
        """The other half: the pod's claims have what it was placed with."""
        devices = devices_of(attempt)
        if devices is not None:
            device_claims.hold(self.listers("ResourceClaim"), devices, node)

    def _result(self, framework: Framework, attempt: Attempt) -> PodResult:
        return detailed(framework, attempt) if self._detail else brief(attempt)

    def unclaimed(self, pod: Pod) -> PodResult:
        """What is said of a pod that no profile claims."""
        known = ", ".join(self.frameworks)
        text = f"no profile is named {pod.spec.scheduler_name!r}; the configuration has: {known}"
        return PodResult(pod.metadata.namespace, pod.metadata.name, message=text)


def woken_by(hooks: ProfileHooks, event: ClusterEvent) -> frozenset[str]:
    """The plugins whose refusals this event may undo."""
    return hooks.any_event | {hint.plugin for hint in hooks.hints if event.matches(hint.registered.event)}


def _decided_by(profile: str, info: PodInfo) -> tuple[Any, ...] | None:
    """What decides a pod's fate besides the cluster; None where its own name, claims or nomination have a say."""
    spec = info.pod.spec
    if spec.volumes or spec.resource_claims or info.pod.status.nominated_node_name:
        return None
    return profile, info.shape.key, info.priority, spec.preemption_policy
