"""VolumeZone: a pod goes where its bound volumes are, by the zone and region labels of the volumes.

Volumes of cloud providers carried their zone as a label before they had a node affinity; some still do. A label may
hold several zones, and old (failure-domain.beta) and new (topology) names of the labels are interchangeable on nodes.
A node without any of these labels belongs to a cluster of one zone.

Called by the framework; claims that are not bound yet are VolumeBinding's affair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kube.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kube.api.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONES_DELIMITER
from kube.api.storage import StorageClass
from kube.api.volumes import claim_class, not_found, waits_for_consumer
from plugins.helpers.hints import queue_if
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult, Versioned
from scheduler.framework.status import SKIP, Code, Status, unresolvable
from scheduler.snapshot.columns import Codes, Mask
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodShape
from scheduler.snapshot.snapshot import Nodes

_NEW_NAME = {BETA_ZONE: ZONE, BETA_REGION: REGION}
_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)


@dataclass(frozen=True, slots=True)
class Topology:
    """What a volume's label asks of a node: one of these values under this key."""

    key: str
    values: frozenset[str]


def topologies(volume: PersistentVolume) -> tuple[Topology, ...]:
    """What the labels of a volume ask for. A label with an empty zone in it is ignored."""
    found = []
    for key in _LABELS:
        values = frozenset(part.strip() for part in volume.metadata.labels.get(key, "").split(ZONES_DELIMITER))
        if "" not in values:
            found.append(Topology(key, values))
    return tuple(found)


def delayed_class_added(pod: Pod, old: StorageClass | None, new: StorageClass | None) -> QueueingHint:
    """A class that binds late makes unbound claims legal."""
    return queue_if(new is not None and waits_for_consumer(new))


def own_claim_changed(pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> QueueingHint:
    """A claim the pod names was added or changed."""
    return queue_if(
        new is not None
        and new.metadata.namespace == pod.metadata.namespace
        and any(
            v.persistent_volume_claim is not None and v.persistent_volume_claim.claim_name == new.metadata.name
            for v in pod.spec.volumes
        )
    )


def zones_changed(pod: Pod, old: PersistentVolume | None, new: PersistentVolume | None) -> QueueingHint:
    """A volume is new, or its zone labels are."""
    return queue_if(new is not None and (old is None or topologies(old) != topologies(new)))


class VolumeZone(PreFilterPlugin, FilterPlugin):
    """Refuse nodes outside the zones of the pod's bound volumes."""

    name = "VolumeZone"
    depends_on_pods = False
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    reason = "node(s) had no available volume zone"
    events = (
        on(EventResource.STORAGE_CLASS, Action.ADD, hint=delayed_class_added),
        on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        on(EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE, hint=own_claim_changed),
        on(EventResource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE, hint=zones_changed),
    )

    def quiet_while(self, shape: PodShape) -> tuple[Versioned, ...] | None:
        """Pods without a volume that scheduling looks at."""
        return None if shape.volumes else ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """SKIP where no bound volume has a zone label."""
        wanted: dict[Topology, None] = {}
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            found = self._of_claim(pod.metadata.namespace, volume.persistent_volume_claim.claim_name)
            if isinstance(found, Status):
                return found
            wanted.update(dict.fromkeys(found))
        if not wanted:
            return SKIP
        state.write(self.name, tuple(wanted))
        return None

    def _of_claim(self, namespace: str, name: str) -> tuple[Topology, ...] | Status:
        if not name:
            return unresolvable("PersistentVolumeClaim had no name")
        claim = self.handle.listers("PersistentVolumeClaim").get(name, namespace)
        if claim is None:
            return unresolvable(not_found("persistentvolumeclaim", name))
        if not claim.spec.volume_name:
            return self._unbound(claim) or ()
        volume = self.handle.listers("PersistentVolume").get(claim.spec.volume_name)
        if volume is None:
            return unresolvable(not_found("persistentvolume", claim.spec.volume_name))
        return topologies(volume)

    def _unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        """An unbound claim is right only where binding waits for its first consumer."""
        class_name = claim_class(claim)
        if not class_name:
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class = self.handle.listers("StorageClass").get(class_name)
        if storage_class is None:
            return unresolvable(not_found("storageclass.storage.k8s.io", class_name))
        if storage_class.volume_binding_mode is None:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
        return None if waits_for_consumer(storage_class) else unresolvable("PersistentVolume had no name")

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask:
        """Nodes without zone labels, and those whose labels all volumes accept."""
        wanted: tuple[Topology, ...] = state.read(self.name)
        accepted = nodes.all
        for topology in wanted:
            accepted &= _accepts(topology, nodes)
        labelled = nodes.none
        for key in _LABELS:
            labelled |= nodes.label_codes(key) != 0
        mask: Mask = accepted | (~labelled & nodes.column("alive"))
        return mask

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same rule for one node."""
        if not any(key in node.labels for key in _LABELS):
            return None
        for topology in state.read(self.name):
            value = node.labels.get(topology.key, node.labels.get(_NEW_NAME.get(topology.key, topology.key)))
            if value not in topology.values:
                return Status(self.code, (self.reason,), self.name)
        return None


def _accepts(topology: Topology, nodes: Nodes) -> Mask:
    """Nodes with one of the values; where an old label is absent, the new one counts."""
    codes, accepted = _by_label(topology.key, topology, nodes)
    new_name = _NEW_NAME.get(topology.key)
    if new_name is None:
        return accepted
    _, by_new_name = _by_label(new_name, topology, nodes)
    return np.where(codes == 0, by_new_name, accepted)


def _by_label(key: str, topology: Topology, nodes: Nodes) -> tuple[Codes, Mask]:
    codes = nodes.label_codes(key)
    values = nodes.snapshot.label(key).values
    table = np.zeros(len(values), np.bool_)
    table[[values.code_of[value] for value in topology.values if value in values.code_of]] = True
    accepted: Mask = table.take(codes)
    return codes, accepted
