"""VolumeRestrictions: disks that only one pod of a node may mount, and claims that only one pod at all may use.

A GCE disk, an iSCSI target or an RBD image is shared by pods of a node only if all mount it read-only, an EBS volume
never. A ReadWriteOncePod claim has one user in the whole cluster; another pod waits, or preempts the user.
An index over rows knows who mounts what.

Called by the framework; which node a volume can be reached from is VolumeBinding's and VolumeZone's affair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from kube.api.core import PersistentVolumeClaim, Pod, Volume
from kube.api.volumes import READ_WRITE_ONCE_POD, not_found
from plugins.helpers.hints import queue_if
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult, Versioned
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import SKIP, Code, Status, unresolvable
from scheduler.snapshot.columns import Codes, Mask
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo, PodShape
from scheduler.snapshot.snapshot import Nodes, Snapshot

DISK_CONFLICT = "node(s) had no available disk"
CLAIM_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

K = TypeVar("K")
#: what makes two disks the same one; an RBD image has one key per monitor
DiskKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that a pod mounts by itself, without a claim."""

    key: DiskKey
    #: whether others that mount it read-only as well may share it
    shared: bool


def disks_of(volume: Volume) -> Iterator[Disk]:
    """The disks of a volume; volumes of other kinds have none."""
    if volume.gce_persistent_disk is not None:
        yield Disk(("gce", volume.gce_persistent_disk.pd_name), volume.gce_persistent_disk.read_only)
    if volume.aws_elastic_block_store is not None:
        yield Disk(("ebs", volume.aws_elastic_block_store.volume_id), shared=False)
    if volume.iscsi is not None:
        yield Disk(("iscsi", volume.iscsi.iqn), volume.iscsi.read_only)
    if volume.rbd is not None:
        for monitor in volume.rbd.monitors:
            yield Disk(("rbd", volume.rbd.pool, volume.rbd.image, monitor), volume.rbd.read_only)


def pod_disks(pod: Pod) -> tuple[Disk, ...]:
    """All disks of a pod."""
    return tuple(disk for volume in pod.spec.volumes for disk in disks_of(volume))


def claim_names(pod: Pod) -> list[str]:
    """The claims a pod names itself; claims of ephemeral volumes have one user by construction."""
    return [v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim is not None]


class VolumeUsers:
    """Who mounts which disk on which row, and which claims are used. Owner: the snapshot, which reports changes."""

    def __init__(self, snapshot: Snapshot) -> None:
        #: (disk, shared) -> row -> number of mounts
        self._mounts: dict[tuple[DiskKey, bool], dict[int, int]] = {}
        #: "namespace/claim" -> number of uses, cluster-wide
        self._claims: dict[str, int] = {}

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """Volumes belong to pods, which are reported one by one."""

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """The pod uses its disks and claims from now on."""
        self._count(row, pod.pod, 1)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The pod uses nothing any more."""
        self._count(row, pod.pod, -1)

    def _count(self, row: int, pod: Pod, sign: int) -> None:
        if not pod.spec.volumes:
            return
        for name in claim_names(pod):
            _add(self._claims, f"{pod.metadata.namespace}/{name}", sign)
        for disk in pod_disks(pod):
            mounts = self._mounts.setdefault((disk.key, disk.shared), {})
            _add(mounts, row, sign)
            if not mounts:
                del self._mounts[disk.key, disk.shared]

    def is_used(self, claim: str) -> bool:
        """Whether some pod on some node uses the claim."""
        return claim in self._claims

    def conflicting_rows(self, disk: Disk) -> Codes:
        """Rows where the disk is mounted in a way that excludes this mount."""
        rows = list(self._mounts.get((disk.key, False), ()))
        if not disk.shared:
            rows += self._mounts.get((disk.key, True), ())
        return np.array(rows, np.intp)


@dataclass(slots=True)
class Restrictions:
    """What PreFilter found. Changes in dry runs, so it is cloned with the cycle's state."""

    disks: tuple[Disk, ...]
    #: names of the pod's ReadWriteOncePod claims
    exclusive: frozenset[str]
    #: how many of them other pods use
    conflicts: int

    def clone(self) -> Restrictions:
        """A copy for a dry run."""
        return replace(self)


def disk_or_claim_freed(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """The deleted pod held a disk that this pod wants, or used a claim of the same name; both are of one namespace."""
    if old is None or old.metadata.namespace != pod.metadata.namespace:
        return QueueingHint.SKIP
    return queue_if(_clash(pod_disks(pod), pod_disks(old)) or not set(claim_names(pod)).isdisjoint(claim_names(old)))


def own_claim_added(pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> QueueingHint:
    """The pod names the new claim."""
    return queue_if(
        new is not None and new.metadata.namespace == pod.metadata.namespace and new.metadata.name in claim_names(pod)
    )


class VolumeRestrictions(PreFilterPlugin, FilterPlugin):
    """Refuse nodes where a disk is taken, and all nodes while somebody else uses a ReadWriteOncePod claim."""

    name = "VolumeRestrictions"
    fewer_pods_help = True
    code = Code.UNSCHEDULABLE
    events = (
        on(EventResource.POD, Action.DELETE, hint=disk_or_claim_freed),
        on(EventResource.NODE, Action.ADD),
        on(EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD, hint=own_claim_added),
    )

    def quiet_while(self, shape: PodShape) -> tuple[Versioned, ...] | None:
        """Pods without a volume that scheduling looks at."""
        return None if shape.volumes else ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """SKIP without disks and without a conflict over claims; a claim that is not there is in nobody's power."""
        if not pod.spec.volumes:
            return SKIP
        exclusive = set()
        claims = self.handle.listers("PersistentVolumeClaim")
        for name in claim_names(pod):
            claim = claims.get(name, pod.metadata.namespace)
            if claim is None:
                return unresolvable(not_found("persistentvolumeclaim", name))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.add(name)
        found = Restrictions(pod_disks(pod), frozenset(exclusive), self._conflicts(pod, exclusive, nodes))
        if not found.disks and not found.conflicts:
            return SKIP
        state.write(self.name, found)
        return None

    def _conflicts(self, pod: Pod, exclusive: set[str], nodes: Nodes) -> int:
        """A claim counts once, however many pods use it: there can be only one."""
        if not exclusive:
            return 0
        users = nodes.snapshot.index(VolumeUsers)
        return sum(users.is_used(f"{pod.metadata.namespace}/{name}") for name in exclusive)

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        """One more user, where it uses the claims."""
        found: Restrictions = state.read(self.name)
        found.conflicts += _shared_claims(found, pod, added.pod)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """One user less: preempting it makes the claim free."""
        found: Restrictions = state.read(self.name)
        found.conflicts -= _shared_claims(found, pod, removed.pod)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask:
        """The index names the rows where a disk is taken."""
        found: Restrictions = state.read(self.name)
        return nodes.none if found.conflicts > 0 else ~self._disk_taken(found, nodes)

    def _disk_taken(self, found: Restrictions, nodes: Nodes) -> Mask:
        taken = nodes.snapshot.nodes.none
        users = nodes.snapshot.index(VolumeUsers)
        for disk in found.disks:
            taken[users.conflicting_rows(disk)] = True
        mask: Mask = nodes.gather(taken)
        return mask

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same rules for one node."""
        found: Restrictions = state.read(self.name)
        if found.disks and any(_clash(found.disks, pod_disks(other.pod)) for other in node.pods.values()):
            return Status(self.code, (DISK_CONFLICT,), self.name)
        if found.conflicts > 0:
            return Status(self.code, (CLAIM_IN_USE,), self.name)
        return None

    def refusals(self, state: CycleState, pod: Pod, nodes: Nodes) -> Refusals:
        """Disks are asked about before claims."""
        statuses = (Status(self.code, (CLAIM_IN_USE,), self.name), Status(self.code, (DISK_CONFLICT,), self.name))
        return Refusals(statuses, self._disk_taken(state.read(self.name), nodes).astype(np.intp))


def _shared_claims(found: Restrictions, pod: Pod, other: Pod) -> int:
    if other.metadata.namespace != pod.metadata.namespace:
        return 0
    return sum(name in found.exclusive for name in claim_names(other))


def _clash(wanted: tuple[Disk, ...], used: tuple[Disk, ...]) -> bool:
    return any(w.key == u.key and not (w.shared and u.shared) for w in wanted for u in used)


def _add(counts: dict[K, int], key: K, amount: int) -> None:
    """A key whose count is 0 is gone."""
    counts[key] = counts.get(key, 0) + amount
    if not counts[key]:
        del counts[key]
