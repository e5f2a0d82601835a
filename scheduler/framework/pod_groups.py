"""Pod groups, as plugins and cycles see them: what a group wants, and which members it has.

`PodGroups` is an index of the snapshot: the queue tells it of members that wait, the snapshot of members that have a
node (running, assumed, or tentatively placed by a group cycle). `Groups` finds what a pod's group wants. Nothing here
decides anything, and nobody needs it while no gate is on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kube.api.core import Pod
from kube.api.workload import DisruptionMode, PodGroup, PodGroupSchedulingPolicy, Workload
from scheduler.framework.handle import Handle, Lister
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Snapshot


def group_key(pod: Pod) -> str:
    """The group of a pod, "" for none: `namespace/group`, or in 1.35's words `namespace/workload/group/replica`."""
    spec = pod.spec
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return f"{pod.metadata.namespace}/{spec.scheduling_group.pod_group_name}"
    if spec.workload_ref is not None:
        ref = spec.workload_ref
        return f"{pod.metadata.namespace}/{ref.name}/{ref.pod_group}/{ref.pod_group_replica_key}"
    return ""


def is_newest(handle: Handle) -> bool:
    """Whether the server has groups as 1.37 has them: what is told of them is worded as there."""
    return handle.served(PodGroup.KIND) == PodGroup.API_VERSION.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Group:
    """What a group wants."""

    key: str
    name: str
    #: members that must start together; 0 for a basic group
    min_count: int
    topology_key: str = ""
    #: what its preemption counts by; a group without one has 0, whatever its pods say (facts B5)
    priority: int = 0
    has_priority: bool = False
    preemption_policy: str = ""
    #: who evicts one member evicts all
    disrupted_whole: bool = False
    #: None for a group that a Workload of 1.35 holds
    obj: PodGroup | None = None


class Groups:
    """pod -> its group, from what informers or files show."""

    def __init__(self, handle: Handle) -> None:
        self._pod_groups: Lister = handle.listers(PodGroup.KIND)
        self._workloads: Lister = handle.listers(Workload.KIND)
        #: what was read of an object, as long as it is the same object; asked for every member in a cycle
        self._last: tuple[PodGroup, Group] | None = None

    def of(self, pod: Pod) -> Group | None:
        """The pod's group; None where it belongs to none, or the object is not there."""
        namespace, spec = pod.metadata.namespace, pod.spec
        if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
            obj: PodGroup | None = self._pod_groups.get(spec.scheduling_group.pod_group_name, namespace)
            if obj is None:
                return None
            if self._last is None or self._last[0] is not obj:
                self._last = (obj, _of_object(group_key(pod), obj))
            return self._last[1]
        if spec.workload_ref is None:
            return None
        workload: Workload | None = self._workloads.get(spec.workload_ref.name, namespace)
        for each in workload.spec.pod_groups if workload is not None else ():
            if each.name == spec.workload_ref.pod_group:
                return Group(group_key(pod), each.name, _min_count(each.policy))
        return None

    @staticmethod
    def name_of(pod: Pod) -> str:
        """How a pod's spec names its group."""
        if pod.spec.scheduling_group is not None and pod.spec.scheduling_group.pod_group_name:
            return pod.spec.scheduling_group.pod_group_name
        return pod.spec.workload_ref.pod_group if pod.spec.workload_ref is not None else ""


def _of_object(key: str, obj: PodGroup) -> Group:
    spec, mode = obj.spec, obj.spec.disruption_mode
    topology = spec.scheduling_constraints.topology if spec.scheduling_constraints is not None else ()
    return Group(
        key=key,
        name=obj.metadata.name,
        min_count=_min_count(spec.scheduling_policy),
        topology_key=topology[0].key if topology else "",
        priority=spec.priority or 0,
        has_priority=spec.priority is not None,
        preemption_policy=spec.preemption_policy or "",
        disrupted_whole=mode == "PodGroup" or (isinstance(mode, DisruptionMode) and mode.all is not None),
        obj=obj,
    )


def _min_count(policy: PodGroupSchedulingPolicy) -> int:
    return policy.gang.min_count if policy.gang is not None else 0


@dataclass(slots=True)
class Members:
    """The members of one group that are known."""

    #: uid -> the pod: in the queue or being decided; one that is assumed stays here until the informer shows its node
    pending: dict[str, PodInfo] = field(default_factory=dict)
    #: uid -> row of its node: running, assumed, or tentatively placed
    scheduled: dict[str, int] = field(default_factory=dict)
    both: int = 0

    @property
    def count(self) -> int:
        """Each once."""
        return len(self.pending) + len(self.scheduled) - self.both


_NOBODY = Members()


class PodGroups:
    """group -> its known members. Owner: the snapshot; the queue reports those that wait."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._members: dict[str, Members] = {}
        self._group_of: dict[str, str] = {}

    def of(self, key: str) -> Members:
        """The members of a group, to be read only."""
        return self._members.get(key, _NOBODY)

    # --- told by the queue --------------------------------------------------------------------------------

    def wait(self, info: PodInfo) -> None:
        """A pod entered the queue."""
        key = group_key(info.pod)
        if not key:
            return
        members = self._members.setdefault(key, Members())
        if info.uid not in members.pending:
            members.both += info.uid in members.scheduled
        members.pending[info.uid] = info
        self._group_of[info.uid] = key

    def wait_no_more(self, uid: str) -> None:
        """A pod left the queue for good."""
        key = self._group_of.pop(uid, None)
        if key is None:
            return
        members = self._members[key]
        del members.pending[uid]
        members.both -= uid in members.scheduled
        self._drop_if_empty(key, members)

    # --- told by the snapshot -----------------------------------------------------------------------------

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """Groups do not look at nodes."""

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """A member is counted on a node now."""
        key = group_key(pod.pod)
        if not key:
            return
        members = self._members.setdefault(key, Members())
        if pod.uid not in members.scheduled:
            members.both += pod.uid in members.pending
        members.scheduled[pod.uid] = row

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """A member is on no node any more."""
        key = group_key(pod.pod)
        members = self._members.get(key) if key else None
        if members is None or members.scheduled.pop(pod.uid, None) is None:
            return
        members.both -= pod.uid in members.pending
        self._drop_if_empty(key, members)

    def _drop_if_empty(self, key: str, members: Members) -> None:
        if not members.pending and not members.scheduled:
            del self._members[key]
