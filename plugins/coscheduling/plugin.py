"""The Coscheduling plugin: pods with the label `scheduling.x-k8s.io/pod-group` start together (facts B6).

PreFilter refuses members that cannot start now and costs no other pod anything; Permit holds those that have a node;
whatever goes wrong with one of them, PostFilter and Unreserve let the waiting ones go, so that a group that does not
fit holds no room. Of the original's known faults (facts B7) these are left out: groups of one age do not mix in the
queue, and a failed group goes behind the others with all its members. Like the original it writes no status: phase and
counts are the work of that project's controller, which a cluster keeps (the embedded one has its own).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import numpy as np

from config.types import CoschedulingArgs
from kube.api.core import Pod
from kube.api.quantity import QuantityError, format_milli, milli_value, value
from kube.api.workload import CoschedulingPodGroup
from plugins.coscheduling.groups import LABEL, RESOURCE, CoschedulingGroups, group_of
from scheduler.framework.cluster_event import Action, EventResource, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    PermitPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    PreFilterResult,
    QueueSortPlugin,
    ReservePlugin,
    Versioned,
)
from scheduler.framework.status import Code, Status, unresolvable, unschedulable
from scheduler.framework.waiting_pods import WaitingPod
from scheduler.snapshot.pod_info import PodInfo, PodShape
from scheduler.snapshot.snapshot import Nodes

#: seconds that members wait for each other where nobody says otherwise
DEFAULT_WAIT = 60.0
#: seconds after a failure of the group in which nobody calls its members: the shortest backoff of a pod
QUIET = 1.0


class Coscheduling(QueueSortPlugin, PreFilterPlugin, PostFilterPlugin, ReservePlugin, PermitPlugin):
    """All or nothing for the pods of a PodGroup of scheduling.x-k8s.io."""

    name = "Coscheduling"
    events = (
        on(EventResource.POD, Action.ADD),
        on(RESOURCE, Action.ADD | Action.UPDATE),
    )

    def __init__(self, args: CoschedulingArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        args = args or CoschedulingArgs()
        self._wait = float(args.permit_waiting_time_seconds or DEFAULT_WAIT)
        self._backoff = float(args.pod_group_backoff_seconds)
        self._reject_share = args.pod_group_reject_percentage / 100
        self._groups = CoschedulingGroups(handle)
        #: from the queue's clock to the wall clock, by which groups are as old as they are
        self._offset: float | None = None
        #: group -> keys of members that PreFilter refused, because siblings were missing or gated
        self._refused: dict[str, set[str]] = {}
        #: UIDs of waiting members that were rejected because of another one, and have yet to give their room back
        self._let_go: set[str] = set()
        handle.listers(RESOURCE, CoschedulingPodGroup).add_handler(add=self._group_came, delete=self._group_gone)
        handle.listers("Pod").add_handler(add=self._pod_came, update=self._pod_changed)

    # --- QueueSort ----------------------------------------------------------------------------------------

    def sort_key(self, pod_info: PodInfo, timestamp: float) -> tuple[int, float, str, str]:
        """Priority, then the age of the group or its last failure, members side by side, then the pod's name."""
        if self._offset is None:
            self._offset = self.handle.now() - timestamp
        since = timestamp + self._offset
        key = group_of(pod_info.pod)
        if key:
            history = self._groups.known_history(key)
            failed = history.last_failure if history is not None else None
            created = self._groups.created(key)
            since = failed if failed is not None else created if created is not None else since
        return -pod_info.priority, since, key or pod_info.key, pod_info.key

    # --- PreFilter ----------------------------------------------------------------------------------------

    def quiet_while(self, shape: PodShape) -> tuple[Versioned, ...] | None:
        """For ever for pods without the label."""
        return None if LABEL in shape.labels else ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Refuse what would be in vain; evicting pods would not help, so nobody preempts for it."""
        key = group_of(pod)
        group = self._groups.get(key) if key else None
        if group is None:
            return None
        history = self._groups.known_history(key)
        if history is not None and _clock_of(self.handle.now) < history.backoff_until:
            return unresolvable(f"podGroup {key} failed recently")
        missing = self._missing_siblings(pod, key, group)
        if missing is not None:
            known = {each.key for each in self._groups.pods(key)}
            self._refused[key] = self._refused.get(key, set()) & known | {pod.key}
            return missing
        return self._room_for_all(key, group, nodes)

    def _missing_siblings(self, pod: Pod, key: str, group: CoschedulingPodGroup) -> Status | None:
        siblings = self._groups.pods(key)
        name, wanted = pod.metadata.name, group.spec.min_member
        if len(siblings) < wanted:
            return unresolvable(
                f"pre-filter pod {name} cannot find enough sibling pods, current pods number: {len(siblings)}, "
                f"minMember of group: {wanted}"
            )
        gated = sum(bool(sibling.spec.scheduling_gates) for sibling in siblings)
        if len(siblings) - gated < wanted:
            return unresolvable(f"pre-filter pod {name} cannot proceed due to gated pods in the same PodGroup")
        return None

    def _room_for_all(self, key: str, group: CoschedulingPodGroup, nodes: Nodes) -> Status | None:
        """minResources against the free room of the whole cluster, remembered for as long as members would wait."""
        if not group.spec.min_resources:
            return None
        history = self._groups.history(key)
        if _clock_of(self.handle.now) < history.room_until:
            return None
        try:
            wanted = {name: _amount(name, text) for name, text in group.spec.min_resources.items()}
        except QuantityError as problem:
            return unresolvable(f"minResources of PodGroup {key}: {problem}")
        wanted["pods"] = max(wanted.get("pods", 0), group.spec.min_member)
        gap = {name: amount - self._free(name, key, nodes) for name, amount in wanted.items()}
        lacking = [f"{name} {_spelled(name, amount)}" for name, amount in sorted(gap.items()) if amount > 0]
        if lacking:
            return unresolvable(f"resource gap: {', '.join(lacking)}")
        history.room_until = _clock_of(self.handle.now) + self._waiting_time(group)
        return None

    def _free(self, resource: str, key: str, nodes: Nodes) -> int:
        """What is free on all nodes together, the group's own pods counted as not there."""
        free = np.maximum(nodes.free(resource), 0) * nodes.all
        own = sum(
            1 if resource == "pods" else pod.requests.get(resource, 0)
            for _, pod in self._groups.assigned.of(key).values()
        )
        return int(np.sum(free)) + own

    # --- PostFilter ---------------------------------------------------------------------------------------

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status]:
        """A member fits nowhere, whatever was evicted: unless hardly any is missing, the waiting ones give up."""
        key = group_of(pod)
        group = self._groups.get(key) if key else None
        if group is None:
            return None, unschedulable("can not find pod group")
        if diagnosis.pre_filter is not None and diagnosis.pre_filter.plugin == self.name:
            # It was not tried: that is no failure of the group.
            return None, Status(Code.UNSCHEDULABLE)
        missing = group.spec.min_member - len(self._groups.assigned.of(key))
        if missing <= 0 or missing <= self._reject_share * group.spec.min_member:
            return None, Status(Code.UNSCHEDULABLE)
        self._reject_waiting(key, "optimistic rejection in PostFilter")
        if self._backoff and len(self._groups.pods(key)) >= group.spec.min_member:
            self._back_off(key)
        self._failed(key)
        # The room that the waiting ones give back is no reason to try at once, or it would go on like this for ever.
        self.handle.sit_out([pod.key])
        text = f"PodGroup {key} gets rejected due to Pod {pod.metadata.name} is unschedulable even after PostFilter"
        return None, unschedulable(text)

    def _back_off(self, key: str) -> None:
        history = self._groups.history(key)
        history.backoff_until = _clock_of(self.handle.now) + self._backoff
        # No event tells that a backoff is over.
        self.handle.later(self._backoff, lambda: self._try_again(key))

    def _try_again(self, key: str) -> None:
        self.handle.activate([pod.key for pod in self._groups.pods(key) if not pod.spec.node_name])

    def _failed(self, key: str) -> None:
        """The group goes behind all others of its priority, those of its members that are in the queue already too."""
        history = self._groups.history(key)
        history.last_failure, history.room_until = self.handle.now(), 0.0
        history.quiet_until, history.called = _clock_of(self.handle.now) + QUIET, False
        self.handle.resort([pod.key for pod in self._groups.pods(key) if not pod.spec.node_name])

    def _waiting(self, key: str) -> Iterator[WaitingPod]:
        """Members that wait at Permit."""
        return (each for each in self.handle.waiting_pods if group_of(each.pod_info.pod) == key)

    def _reject_waiting(self, key: str, message: str) -> None:
        for waiting in self._waiting(key):
            if waiting.reject(self.name, message):
                self._let_go.add(waiting.pod_info.uid)

    # --- Permit and Reserve -------------------------------------------------------------------------------

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        """The pod is counted among the assigned ones already."""
        key = group_of(pod)
        if not key:
            return None, 0.0
        group = self._groups.get(key)
        if group is None:
            return unschedulable("PodGroup not found"), 0.0
        if len(self._groups.assigned.of(key)) < group.spec.min_member:
            if self.handle.group is None:
                self._call_siblings(key, pod)
            return Status(Code.WAIT, ("waiting for the other pods of its PodGroup",)), self._waiting_time(group)
        if self.handle.group is None:
            for each in self._waiting(key):
                each.allow(self.name)
            self._groups.forget(key)
        return None, 0.0

    def _call_siblings(self, key: str, pod: Pod) -> None:
        """The others are needed now; only one that waits calls them, or they would be called for ever.

        Nor does anybody right after a failure: the member that does not fit sits out its backoff, and calls the others
        itself if it fits then.
        """
        history = self._groups.history(key)
        if history.called or _clock_of(self.handle.now) < history.quiet_until:
            return
        history.called = True
        siblings = (each for each in self._groups.pods(key) if not each.spec.node_name and each.key != pod.key)
        self.handle.activate([each.key for each in siblings])

    def _waiting_time(self, group: CoschedulingPodGroup) -> float:
        own = group.spec.schedule_timeout_seconds
        return float(own) if own is not None else self._wait

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """One member lost its place or waited too long: the others need not wait for it."""
        key = group_of(pod)
        if pod.metadata.uid in self._let_go:
            # It is one of these others: of this failure of the group all have heard.
            self._let_go.discard(pod.metadata.uid)
            return
        if not key or self.handle.group is not None or self._groups.get(key) is None:
            return
        self._reject_waiting(key, "rejection in Unreserve")
        self._failed(key)

    # --- groups and siblings that come --------------------------------------------------------------------

    def _group_came(self, group: CoschedulingPodGroup) -> None:
        """Its pods may have been queued before it was known how old it is."""
        self.handle.resort([pod.key for pod in self._groups.pods(group.key) if not pod.spec.node_name])

    def _group_gone(self, group: CoschedulingPodGroup, final_state_unknown: bool) -> None:
        """What is remembered of it is of no use any more."""
        self._groups.forget(group.key)
        self._refused.pop(group.key, None)

    def _pod_came(self, pod: Pod) -> None:
        """It may be the one that its siblings waited for."""
        key = group_of(pod)
        refused = self._refused.get(key) if key else None
        group = self._groups.get(key) if refused else None
        if refused and group is not None and self._missing_siblings(pod, key, group) is None:
            del self._refused[key]
            self.handle.activate(sorted(refused))

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        """Its gates may be gone."""
        if old.spec.scheduling_gates and not new.spec.scheduling_gates:
            self._pod_came(new)


def _clock_of(now: Callable[[], float]) -> float:
    """Durations are measured by the loop's clock, which nobody sets; offline, where none runs, time stands still."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return now()


def _amount(resource: str, text: str | int | float) -> int:
    return milli_value(text) if resource == "cpu" else value(text)


def _spelled(resource: str, amount: int) -> str:
    return format_milli(amount) if resource == "cpu" else str(amount)
