"""GangScheduling: the members of a gang start together or not at all (facts B2).

PreEnqueue keeps members out of the queue until the group and enough members are there; Permit holds those that have a
node until enough of them do. In a group cycle nobody waits: there Permit only says whether the group is complete.
"""

from __future__ import annotations

from typing import Any

from config.types import GangSchedulingArgs
from kube.api.core import Pod
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import PermitPlugin, PreEnqueuePlugin
from scheduler.framework.pod_groups import Groups, PodGroups, group_key, is_newest
from scheduler.framework.status import Code, Status, error, unresolvable

PERMIT_TIMEOUT = 300.0
TOO_FEW_KNOWN = "waiting for minCount pods from a gang to appear in scheduling queue"
TOO_FEW_SCHEDULED = "waiting for minCount pods from a gang to be scheduled"


class GangScheduling(PreEnqueuePlugin, PermitPlugin):
    """All or nothing for the pods of a gang."""

    name = "GangScheduling"

    def __init__(self, args: GangSchedulingArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        self.group_orders = args.max_orders if args is not None else 1
        self._groups = Groups(handle)
        self._members = handle.snapshot.index(PodGroups)
        self.events = (
            on(EventResource.POD, Action.ADD, hint=self.member_added),
            on(EventResource.POD_GROUP, Action.ADD | Action.UPDATE, hint=self.group_changed),
            on("Workload", Action.ADD | Action.UPDATE, hint=self.workload_changed),
        )

    # --- hints --------------------------------------------------------------------------------------------

    def member_added(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """A pod of the same group, and with it there are enough."""
        same = new is not None and group_key(pod) == group_key(new)
        return QueueingHint.QUEUE if same and self.pre_enqueue(pod) is None else QueueingHint.SKIP

    def group_changed(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        """The pod's group appeared, or wants fewer members now."""
        name, namespace = Groups.name_of(pod), pod.metadata.namespace
        same = new is not None and (new.metadata.name, new.metadata.namespace) == (name, namespace)
        return QueueingHint.QUEUE if same and self.pre_enqueue(pod) is None else QueueingHint.SKIP

    def workload_changed(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        """The same where the Workload holds the group."""
        ref = pod.spec.workload_ref
        same = ref is not None and new is not None and new.metadata.name == ref.name
        return QueueingHint.QUEUE if same and self.pre_enqueue(pod) is None else QueueingHint.SKIP

    # --- the points ---------------------------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """An attempt would be in vain while the group or some of its members are missing."""
        key = group_key(pod)
        if not key:
            return None
        group = self._groups.of(pod)
        if group is None:
            whose = "pod's" if is_newest(self.handle) else "pods's"
            return unresolvable(f'waiting for {whose} pod group "{Groups.name_of(pod)}" to appear in scheduling queue')
        if self._members.of(key).count < group.min_count:
            return unresolvable(TOO_FEW_KNOWN)
        return None

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        """The pod is counted among the scheduled ones already."""
        key = group_key(pod)
        if not key:
            return None, 0.0
        group = self._groups.of(pod)
        if group is None:
            return error(f'pod group "{Groups.name_of(pod)}" not found'), 0.0
        if len(self._members.of(key).scheduled) < group.min_count:
            self._call_siblings(key)
            return Status(Code.WAIT, (TOO_FEW_SCHEDULED,)), PERMIT_TIMEOUT
        self._release_siblings(key)
        return None, 0.0

    def _call_siblings(self, key: str) -> None:
        """The others are needed now. The first that waits calls them; in a group cycle they are here anyway."""
        if self.handle.group is not None or any(group_key(w.pod_info.pod) == key for w in self.handle.waiting_pods):
            return
        members = self._members.of(key)
        self.handle.activate([info.key for uid, info in members.pending.items() if uid not in members.scheduled])

    def _release_siblings(self, key: str) -> None:
        if self.handle.group is not None:
            return
        for waiting in self.handle.waiting_pods:
            if group_key(waiting.pod_info.pod) == key:
                waiting.allow(self.name)
