"""NodeVolumeLimits: no node gets more volumes of a CSI driver than the driver can attach there.

A driver's limit on a node stands in the node's CSINode. What counts: the distinct volumes of the pods on the node,
those of the new pod, and what VolumeAttachments say is attached besides. Claims that are not bound yet count with the
driver that will provision them; volumes of former in-tree plugins count with the driver that took them over.

Called by the framework. Counting exactly means looking up every claim on a node, so it is done only for nodes that
could be full: an index knows how many volumes a row has at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kube.api.core import PersistentVolumeClaim, Pod, Volume
from kube.api.csi_migration import BY_NAME, MigrationError, csi_volume, is_migratable, plugin_of
from kube.api.storage import CSINode, VolumeAttachment
from kube.api.volumes import claim_class, claim_uses, has_claim, not_found, not_owned, uses_claim
from plugins.helpers.hints import had_a_place, queue_if
from plugins.helpers.listed import Derived
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult, Versioned
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import SKIP, Code, Status, error, unresolvable
from scheduler.snapshot.columns import Codes, Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo, PodShape
from scheduler.snapshot.snapshot import Nodes, Snapshot

LIMIT_EXCEEDED = "node(s) exceed max volume count"
SCALING_GATE = "VolumeLimitScaling"
BY_NODE = "NodeVolumeLimits: attachments by node"

#: (driver, handle)
VolumeId = tuple[str, str]


class VolumeCount:
    """How many volumes the pods of a row have at most, counted once per pod. Owner: the snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._counts: Codes = np.zeros(max(snapshot.size, 64), np.intp)

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """Volumes belong to pods, which are reported one by one."""

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """The pod's volumes may be attached to this row."""
        self._count(row, pod.pod, 1)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The pod's volumes are not needed here any more."""
        self._count(row, pod.pod, -1)

    def _count(self, row: int, pod: Pod, sign: int) -> None:
        if not pod.spec.volumes:
            return
        if row >= len(self._counts):
            self._grow(row + 1)
        self._counts[row] += sign * sum(map(may_attach, pod.spec.volumes))

    def _grow(self, rows: int) -> None:
        grown = np.zeros(max(rows, 2 * len(self._counts)), np.intp)
        grown[: len(self._counts)] = self._counts
        self._counts = grown

    def by_row(self, nodes: Nodes) -> Codes:
        """`(size,)` upper bounds for a view."""
        if nodes.snapshot.size > len(self._counts):
            self._grow(nodes.snapshot.size)
        counts: Codes = nodes.gather(self._counts[: nodes.snapshot.size])
        return counts


@dataclass(frozen=True, slots=True)
class NewVolumes:
    """What the pod would add to a node, by driver. Migrated volumes need a CSINode to be known to a driver."""

    by_driver: Mapping[str, frozenset[VolumeId]]
    without_csi_node: frozenset[str]
    #: the pod cannot be judged at all: the status of every node
    problem: Status | None = None


@dataclass(slots=True)
class _Limits:
    """What CSINodes say, over all rows."""

    #: rows that have a CSINode
    known: Mask
    #: driver -> limit, infinite where there is none
    by_driver: dict[str, Vector] = field(default_factory=dict)
    #: driver -> rows that have it
    installed: dict[str, Mask] = field(default_factory=dict)


def may_attach(volume: Volume) -> bool:
    """Whether a pod's volume can be one of a CSI driver. Inline CSI volumes are never attached."""
    return has_claim(volume) or is_migratable(volume)


def own_claim_added(pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> QueueingHint:
    """A claim the pod uses was added."""
    return queue_if(new is not None and uses_claim(pod, new))


def volumes_released(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """The deleted pod had a place and a volume that may have been attached."""
    return queue_if(old is not None and had_a_place(old) and any(map(may_attach, old.spec.volumes)))


def volume_detached(pod: Pod, old: VolumeAttachment | None, new: VolumeAttachment | None) -> QueueingHint:
    """Something was detached, and the pod has a volume of that driver or one whose driver only its claim knows."""
    if old is None:
        return QueueingHint.SKIP
    drivers = [plugin.driver for volume in pod.spec.volumes if (plugin := plugin_of(volume)) is not None]
    return queue_if(old.spec.attacher in drivers or any(map(has_claim, pod.spec.volumes)))


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    """Refuse nodes on which a CSI driver has no room for the pod's volumes."""

    name = "NodeVolumeLimits"
    #: fewer pods need not help: once the pod that has it attached is gone, a shared volume is a new one, and may be one
    #: too many
    sparse = True
    code = Code.UNSCHEDULABLE

    def __init__(self, args: Any, handle: Handle) -> None:
        """No arguments."""
        super().__init__(args, handle)
        self.scaling = handle.gate(SCALING_GATE)
        self.events = (
            on(EventResource.CSI_NODE, Action.ADD),
            on(EventResource.CSI_NODE, Action.UPDATE, hint=self.limit_raised),
            on(EventResource.POD, Action.DELETE, hint=volumes_released),
            on(EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD, hint=own_claim_added),
            on(EventResource.VOLUME_ATTACHMENT, Action.DELETE, hint=volume_detached),
        )
        self.claims = handle.listers("PersistentVolumeClaim")
        self.volumes = handle.listers("PersistentVolume")
        self.classes = handle.listers("StorageClass")
        self.csi_nodes = handle.listers("CSINode")
        self.csi_drivers = handle.listers("CSIDriver")
        self.attachments = handle.listers("VolumeAttachment")
        self.attachments.add_index(BY_NODE, lambda attachment: (attachment.spec.node_name,))
        self._limits = Derived(self.csi_nodes, handle.snapshot, self._read_limits)
        self._attached = Derived(self.attachments, handle.snapshot, self._count_attachments)

    # --- PreFilter and Filter -----------------------------------------------------------------------------

    def quiet_while(self, shape: PodShape) -> tuple[Versioned, ...] | None:
        """Pods without a volume that scheduling looks at."""
        return None if shape.volumes else ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """SKIP without a volume that could be attached."""
        if not any(map(may_attach, pod.spec.volumes)):
            return SKIP
        state.write(self.name, self._new_volumes(pod))
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        """Nodes that cannot be full pass at once, the others are counted."""
        new: NewVolumes = state.read(self.name)
        if new.problem is not None:
            return new.problem if new.problem.code is Code.ERROR else nodes.none
        fits = nodes.all
        if self.scaling:
            fits &= self._installed(new, nodes)
        close = self._could_be_full(new, nodes) & fits
        for i in close.nonzero()[0].tolist():
            fits[i] = not self._exceeds(new, nodes.info(i))
        return fits

    def concerned_by(self, state: CycleState, shape: PodShape) -> bool:
        """Only pods with volumes that could be attached."""
        return any(map(may_attach, shape.volumes))

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same rules for one node."""
        new: NewVolumes = state.read(self.name)
        if new.problem is not None:
            return new.problem
        csi_node = self.csi_nodes.get(node.name)
        if self.scaling:
            known = new.by_driver if csi_node is not None else new.without_csi_node
            for driver in sorted(known):
                if self._must_be_installed(driver) and not _has_driver(csi_node, driver):
                    return Status(self.code, (f"{driver} CSI driver is not installed on the node",), self.name)
        return Status(self.code, (LIMIT_EXCEEDED,), self.name) if self._exceeds(new, node) else None

    def refusals(self, state: CycleState, pod: Pod, nodes: Nodes) -> Refusals:
        """Mostly there is one reason, and no need to count again."""
        new: NewVolumes = state.read(self.name)
        if new.problem is None and not self.scaling:
            return Refusals((Status(self.code, (LIMIT_EXCEEDED,), self.name),), np.zeros(nodes.size, np.intp))
        return super().refusals(state, pod, nodes)

    # --- what the pod adds --------------------------------------------------------------------------------

    def _new_volumes(self, pod: Pod) -> NewVolumes:
        found: dict[str, set[VolumeId]] = {}
        without_csi_node: set[str] = set()
        for use in claim_uses(pod):
            claim = self.claims.get(use.name, pod.metadata.namespace)
            if claim is None:
                text = f"looking up PVC {pod.metadata.namespace}/{use.name}: "
                return NewVolumes({}, frozenset(), unresolvable(text + not_found("persistentvolumeclaim", use.name)))
            wrong = not_owned(pod, claim) if use.ephemeral else ""
            if wrong:
                return NewVolumes({}, frozenset(), error(wrong))
            volume, migrated = self._of_claim(claim)
            if volume is not None:
                found.setdefault(volume[0], set()).add(volume)
                if not migrated:
                    without_csi_node.add(volume[0])
        for inline in inline_volumes(pod):
            found.setdefault(inline[0], set()).add(inline)
        by_driver = {driver: frozenset(volumes) for driver, volumes in found.items()}
        return NewVolumes(by_driver, frozenset(without_csi_node))

    def _of_claim(self, claim: PersistentVolumeClaim) -> tuple[VolumeId | None, bool]:
        """The volume behind a claim and whether it was an in-tree plugin's; None for one that no driver attaches.

        Where the volume is not there (yet), the class tells the driver, and the claim stands for the volume.
        """
        volume = self.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is None:
            return self._of_class(claim)
        if volume.spec.csi is not None:
            return _known((volume.spec.csi.driver, volume.spec.csi.volume_handle)), False
        plugin = plugin_of(volume.spec)
        if plugin is None or not plugin.migrated:
            return None, False
        try:
            return _known(csi_volume(volume.spec, plugin, volume.metadata.labels)), True
        except MigrationError:
            return None, True

    def _of_class(self, claim: PersistentVolumeClaim) -> tuple[VolumeId | None, bool]:
        class_name = claim_class(claim)
        storage_class = self.classes.get(class_name) if class_name else None
        if storage_class is None:
            return None, False
        handle = f"unbound claim {claim.key}"
        plugin = BY_NAME.get(storage_class.provisioner)
        if plugin is None:
            return _known((storage_class.provisioner, handle)), False
        return ((plugin.driver, handle) if plugin.migrated else None), True

    # --- what is there ------------------------------------------------------------------------------------

    def _could_be_full(self, new: NewVolumes, nodes: Nodes) -> Mask:
        limits = self._limits.get().by_driver
        present = nodes.snapshot.index(VolumeCount).by_row(nodes) + nodes.gather(self._attached.get())
        close = nodes.none
        for driver, volumes in new.by_driver.items():
            if driver in limits:
                close |= present + len(volumes) > nodes.gather(limits[driver])
        return close

    def _exceeds(self, new: NewVolumes, node: NodeInfo) -> bool:
        """Whether a driver would have more volumes on the node than its limit. An overfull node may reuse its own."""
        limits = {
            driver: limit
            for driver, limit in limits_of(self.csi_nodes.get(node.name)).items()
            if driver in new.by_driver
        }
        if not limits:
            return False
        attached = self._attached_to(node)
        used = Counter(driver for driver, _ in attached)
        added = {driver: len(new.by_driver[driver] - attached) for driver in limits}
        return any(added[driver] and used[driver] + added[driver] > limit for driver, limit in limits.items())

    def _attached_to(self, node: NodeInfo) -> set[VolumeId]:
        """The volumes of the pods on a node that has a CSINode, and those attached besides."""
        attached = set()
        for key in node.pvc_ref_counts:
            namespace, _, name = key.partition("/")
            # A claim of a running pod that is gone or odd is no reason to refuse others.
            claim = self.claims.get(name, namespace)
            volume = self._of_claim(claim)[0] if claim is not None else None
            if volume is not None:
                attached.add(volume)
        for pod in node.pods.values():
            if pod.pod.spec.volumes:
                attached.update(inline_volumes(pod.pod))
        for attachment in self.attachments.by_index(BY_NODE, node.name):
            name = attachment.spec.source.persistent_volume_name
            volume = self.volumes.get(name) if name else None
            if volume is not None and volume.spec.csi is not None and attachment.spec.attacher:
                attached.add((attachment.spec.attacher, volume.spec.csi.volume_handle))
        return attached

    def _read_limits(self) -> _Limits:
        snapshot = self.handle.snapshot
        found = _Limits(snapshot.nodes.none)
        for csi_node in self.csi_nodes.list():
            row = snapshot.row_of.get(csi_node.metadata.name)
            if row is None:
                continue
            found.known[row] = True
            for driver in csi_node.spec.drivers:
                found.installed.setdefault(driver.name, snapshot.nodes.none)[row] = True
            for name, limit in limits_of(csi_node).items():
                if name not in found.by_driver:
                    found.by_driver[name] = np.full(snapshot.size, np.inf)
                found.by_driver[name][row] = limit
        return found

    def _count_attachments(self) -> Codes:
        row_of = self.handle.snapshot.row_of
        counts = np.zeros(self.handle.snapshot.size, np.intp)
        for attachment in self.attachments.list():
            row = row_of.get(attachment.spec.node_name)
            if row is not None:
                counts[row] += 1
        return counts

    # --- drivers that must be there -----------------------------------------------------------------------

    def _installed(self, new: NewVolumes, nodes: Nodes) -> Mask:
        limits = self._limits.get()
        fits = nodes.all
        for driver in new.by_driver:
            if self._must_be_installed(driver):
                there = limits.installed.get(driver, nodes.snapshot.nodes.none)
                # In-tree volumes count only where a CSINode says that a driver serves them.
                fits &= nodes.gather(there if driver in new.without_csi_node else there | ~limits.known)
        return fits

    def _must_be_installed(self, driver: str) -> bool:
        """A driver says in its CSIDriver whether pods shall wait for nodes that have it."""
        csi_driver = self.csi_drivers.get(driver)
        return csi_driver is not None and csi_driver.spec.prevent_pod_scheduling_if_missing is True

    def limit_raised(self, pod: Pod, old: CSINode | None, new: CSINode | None) -> QueueingHint:
        """Some driver's limit on the node rose, or fell away; with the gate also: a driver was installed."""
        if old is None or new is None:
            return QueueingHint.QUEUE
        before, now = limits_of(old), limits_of(new)
        raised = any(driver not in now or now[driver] > limit for driver, limit in before.items())
        added = {driver.name for driver in new.spec.drivers} - {driver.name for driver in old.spec.drivers}
        return queue_if(raised or (self.scaling and bool(added)))


def limits_of(csi_node: CSINode | None) -> dict[str, int]:
    """Driver -> number of volumes it can attach to the node, of the drivers that have a limit."""
    if csi_node is None:
        return {}
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def inline_volumes(pod: Pod) -> Iterable[VolumeId]:
    """In-tree volumes that a pod names without a claim, as their drivers know them."""
    for volume in pod.spec.volumes:
        plugin = plugin_of(volume) if not has_claim(volume) else None
        if plugin is not None and plugin.migrated:
            try:
                yield csi_volume(volume, plugin, {})
            except MigrationError:
                # No driver could attach it, so it takes nobody's room; the kubelet will say what is wrong with it.
                continue


def _known(volume: VolumeId) -> VolumeId | None:
    return volume if all(volume) else None


def _has_driver(csi_node: CSINode | None, driver: str) -> bool:
    return csi_node is not None and any(d.name == driver for d in csi_node.spec.drivers)
