"""Event handlers: from what informers see to the cache and the queue (facts 2.12).

Assigned pods of every scheduler count in the cache; pending pods enter the queue only if one of our profiles is
responsible for them. Called by informers on the event loop; never awaits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec.structs import replace

from kube.api.core import Node, Pod
from kube.api.meta import ApiObject
from scheduler.cache import SchedulerCache
from scheduler.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    EventResource,
)
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.queue.pod_changes import pod_update_events
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.snapshot.pod_info import uid_of
from scheduler.snapshot.snapshot import Snapshot

_NODE_LABELS = {
    Action.UPDATE_NODE_ALLOCATABLE: "NodeAllocatableChange",
    Action.UPDATE_NODE_LABEL: "NodeLabelChange",
    Action.UPDATE_NODE_TAINT: "NodeTaintChange",
    Action.UPDATE_NODE_CONDITION: "NodeConditionChange",
    Action.UPDATE_NODE_ANNOTATION: "NodeAnnotationChange",
    Action.UPDATE_NODE_DECLARED_FEATURE: "NodeDeclaredFeatureChange",
}


def node_update_events(old: Node, new: Node) -> list[ClusterEvent]:
    """The narrow events of a node update; none for a heartbeat."""
    became_schedulable = old.spec.unschedulable and not new.spec.unschedulable
    changes = (
        (Action.UPDATE_NODE_ALLOCATABLE, old.status.allocatable != new.status.allocatable),
        (Action.UPDATE_NODE_LABEL, old.metadata.labels != new.metadata.labels),
        (Action.UPDATE_NODE_TAINT, old.spec.taints != new.spec.taints or became_schedulable),
        (Action.UPDATE_NODE_CONDITION, old.status.conditions != new.status.conditions),
        (Action.UPDATE_NODE_ANNOTATION, old.metadata.annotations != new.metadata.annotations),
        (Action.UPDATE_NODE_DECLARED_FEATURE, old.status.declared_features != new.status.declared_features),
    )
    return [ClusterEvent(EventResource.NODE, action, _NODE_LABELS[action]) for action, changed in changes if changed]


def _ignore(uid: str) -> None:
    """Nothing is written about pods here."""


class EventHandlers:
    """Owner: Scheduler."""

    def __init__(
        self,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        waiting_pods: WaitingPods,
        profiles: Collection[str],
        assigned: Callable[[str], object] = _ignore,
    ) -> None:
        """`assigned`: told the UID of each pod that is seen to have got a node."""
        self._cache = cache
        self._queue = queue
        self._waiting = waiting_pods
        self._profiles = profiles
        self._assigned = assigned
        self._snapshot: Snapshot = cache.snapshot

    # --- pods ---------------------------------------------------------------------------------------------

    def add_pod(self, pod: Pod) -> None:
        """A pod appeared."""
        if pod.spec.node_name:
            self._add_assigned(pod)
        elif self._is_ours(pod) and not self._cache.is_assumed(uid_of(pod)):
            self._queue.add(self._snapshot.shapes.pod_info(pod))

    def update_pod(self, old: Pod, new: Pod) -> None:
        """A pod changed; the same resourceVersion again (a resync) is no change."""
        if old.metadata.resource_version == new.metadata.resource_version and old.metadata.resource_version:
            return
        if uid_of(old) != uid_of(new):
            # A delete and an add of the same name, seen as one update: the old pod would stay for ever.
            self.delete_pod(old, final_state_unknown=True)
            self.add_pod(new)
        elif new.spec.node_name:
            if old.spec.node_name:
                self._update_assigned(old, new)
            else:
                self._add_assigned(new)
                self._nomination_changed(old, new.spec.node_name)
        elif self._is_ours(new):
            self._update_pending(old, new)
        elif self._is_ours(old):
            self._queue.delete(uid_of(old))

    def delete_pod(self, pod: Pod, final_state_unknown: bool) -> None:
        """A pod is gone. Its last known state may be stale, so both cache and queue let go of it."""
        uid = uid_of(pod)
        nominated = self._queue.nominator.node_of(uid)
        self._queue.delete(uid)
        waiting = self._waiting.get(uid)
        if waiting is not None:
            waiting.reject("", "pod is being deleted")
        if self._cache.remove_pod(uid):
            self._queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, pod, None)
        elif nominated:
            self._nomination_gone(pod, nominated)

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._profiles

    def _add_assigned(self, pod: Pod) -> None:
        """Whoever bound it, it waits no longer; what waits for it may go on."""
        uid = uid_of(pod)
        self._assigned(uid)
        self._cache.add_pod(pod)
        self._queue.delete(uid)
        self._queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_ADD, None, pod)

    def _update_assigned(self, old: Pod, new: Pod) -> None:
        self._cache.update_pod(new)
        for event in pod_update_events(old, new, EventResource.ASSIGNED_POD):
            self._queue.move_all_to_active_or_backoff_queue(event, old, new)

    def _update_pending(self, old: Pod, new: Pod) -> None:
        if not self._cache.is_assumed(uid_of(new)):
            self._queue.update(old, self._snapshot.shapes.pod_info(new))
        self._nomination_changed(old, new.status.nominated_node_name)

    def _nomination_changed(self, old: Pod, node_name: str) -> None:
        """Whoever was promised room on one node and is now promised or given another leaves the first to others."""
        before = old.status.nominated_node_name
        if before and before != node_name:
            self._nomination_gone(old, before)

    def _nomination_gone(self, pod: Pod, node_name: str) -> None:
        """Room that was promised is free again: for pods of the same priority or lower."""
        if pod.status.nominated_node_name != node_name:
            # Known to the nominator before the informer saw it; hints look at the object.
            pod = replace(pod, status=replace(pod.status, nominated_node_name=node_name))
        priority = pod.spec.priority or 0
        self._queue.move_all_to_active_or_backoff_queue(
            ASSIGNED_POD_DELETE, pod, None, lambda info: info.priority <= priority
        )

    # --- nodes --------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """A node appeared; first the cache, then the pods that wait for it."""
        self._cache.add_node(node)
        self._queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node)

    def update_node(self, old: Node, new: Node) -> None:
        """A node changed."""
        self._cache.update_node(new)
        for event in node_update_events(old, new):
            self._queue.move_all_to_active_or_backoff_queue(event, old, new)

    def delete_node(self, node: Node, final_state_unknown: bool) -> None:
        """A node is gone; hints still see it in the cache."""
        self._queue.move_all_to_active_or_backoff_queue(NODE_DELETE, node, None)
        self._cache.remove_node(node.metadata.name)

    # --- everything else ----------------------------------------------------------------------------------

    def others(
        self, kind: str
    ) -> tuple[Callable[[ApiObject], None], Callable[[ApiObject, ApiObject], None], Callable[[ApiObject, bool], None]]:
        """add, update and delete handlers of a kind that only wakes pods."""
        move = self._queue.move_all_to_active_or_backoff_queue
        added = ClusterEvent(kind, Action.ADD, f"{kind}Add")
        updated = ClusterEvent(kind, Action.UPDATE_OTHER, f"{kind}Update")
        deleted = ClusterEvent(kind, Action.DELETE, f"{kind}Delete")

        def update(old: ApiObject, new: ApiObject) -> None:
            if old.metadata.resource_version != new.metadata.resource_version:
                move(updated, old, new)

        return lambda obj: move(added, None, obj), update, lambda obj, unknown: move(deleted, obj, None)
