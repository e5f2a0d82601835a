"""The claims of a pod, sorted by what is left to do for them, with the volumes and classes that matter.

Made once per scheduling cycle, in PreFilter; immutable afterwards. What no node can change is decided here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kube.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kube.api.labels import SelectorError
from kube.api.quantity import whole
from kube.api.storage import CSIStorageCapacity, StorageClass
from kube.api.volumes import (
    SELECTED_NODE,
    STORAGE,
    claim_class,
    claim_uses,
    is_bound_to,
    is_free,
    is_fully_bound,
    not_found,
    not_owned,
    provisions,
    reachable,
    request_of,
    suits,
    volume_class,
    volume_limit,
    waits_for_consumer,
)
from plugins.helpers.label_rows import NO_ROWS
from plugins.volume_binding.assume_cache import AssumeCache
from plugins.volume_binding.free_volumes import FreeVolumes
from scheduler.framework.handle import Handle
from scheduler.framework.status import Status, error, unresolvable
from scheduler.snapshot.columns import Codes

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"

FREE_BY_CLASS = "VolumeBinding: free volumes by class"
BY_CLAIM = "VolumeBinding: volumes by claim"
CAPACITY_BY_CLASS = "VolumeBinding: capacities by class"


@dataclass(frozen=True, slots=True)
class BoundClaim:
    """A claim that has its volume; None: the volume is gone."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None


@dataclass(frozen=True, slots=True)
class DelayedClaim:
    """A claim that is bound once its pod has a node."""

    claim: PersistentVolumeClaim
    storage_class: StorageClass
    #: the node a volume is being provisioned for, "" where that was not asked for yet
    selected_node: str
    #: the volume that is reserved for the claim: if there is one, no other will do
    reserved: PersistentVolume | None
    #: the free volumes of the class, and the positions of those that suit the claim, for this cycle
    free: FreeVolumes
    positions: Codes
    #: where room was measured for a volume of this size; None: any node will do
    capacities: tuple[CSIStorageCapacity, ...] | None

    def pick(self, labels: Mapping[str, str], taken: Container[str]) -> PersistentVolume | None:
        """The volume for the claim on a node with these labels, those that other claims of the pod took left out."""
        if self.reserved is not None:
            return self.reserved if reachable(self.reserved, labels) else None
        suitable = (self.free.volumes[position] for position in self.positions.tolist())
        return next((v for v in suitable if v.metadata.name not in taken and reachable(v, labels)), None)


@dataclass(frozen=True, slots=True)
class PodClaims:
    """All claims of a pod."""

    bound: tuple[BoundClaim, ...]
    #: in the order of the pod's volumes
    delayed: tuple[DelayedClaim, ...]

    @property
    def to_match(self) -> list[DelayedClaim]:
        """Claims that may get an existing volume, small ones first, so that they leave the large volumes."""
        free = [delayed for delayed in self.delayed if not delayed.selected_node]
        return sorted(free, key=lambda delayed: request_of(delayed.claim))

    @property
    def selected(self) -> list[DelayedClaim]:
        """Claims whose volume is being provisioned already."""
        return [delayed for delayed in self.delayed if delayed.selected_node]


class ClaimReader:
    """Looks the claims of a pod up. Owner: the plugin."""

    def __init__(self, handle: Handle) -> None:
        self.claims = AssumeCache(handle.listers("PersistentVolumeClaim"))
        self.volumes = AssumeCache(handle.listers("PersistentVolume"))
        self.classes = handle.listers("StorageClass")
        self.drivers = handle.listers("CSIDriver")
        self.capacities = handle.listers("CSIStorageCapacity")
        self.volumes.lister.add_index(FREE_BY_CLASS, _free_class)
        self.volumes.lister.add_index(BY_CLAIM, _claim_key)
        #: class -> its free volumes
        self._free: dict[str, FreeVolumes] = {}
        self.capacities.add_index(CAPACITY_BY_CLASS, lambda capacity: (capacity.storage_class_name,))

    def read(self, pod: Pod) -> PodClaims | Status | None:
        """The pod's claims, None where it has none; a status where they rule out every node."""
        found: list[PersistentVolumeClaim] = []
        for use in claim_uses(pod):
            claim = self.claims.get(use.name, pod.metadata.namespace)
            unusable = _unusable(pod, claim, use.name, ephemeral=use.ephemeral)
            if unusable or claim is None:
                return unresolvable(unusable)
            found.append(claim)
        return self._sort(found) if found else None

    def _sort(self, claims: Iterable[PersistentVolumeClaim]) -> PodClaims | Status:
        bound, delayed, immediate = [], [], False
        for claim in claims:
            if is_fully_bound(claim):
                bound.append(BoundClaim(claim, self.volumes.get(claim.spec.volume_name)))
                continue
            storage_class = self.classes.get(claim_class(claim)) if claim_class(claim) else None
            if storage_class is not None and storage_class.volume_binding_mode is None:
                return error(f'VolumeBindingMode not set for StorageClass "{storage_class.metadata.name}"')
            # A claim that names its volume is the controller's to bind, whatever its class says.
            if storage_class is None or not waits_for_consumer(storage_class) or claim.spec.volume_name:
                immediate = True
                continue
            try:
                delayed.append(self._delayed(claim, storage_class))
            except SelectorError as wrong:
                return error(f"error creating internal label selector for claim: {claim.key}: {wrong}")
        return unresolvable(UNBOUND_IMMEDIATE) if immediate else PodClaims(tuple(bound), tuple(delayed))

    def _delayed(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> DelayedClaim:
        selected = claim.metadata.annotations.get(SELECTED_NODE, "")
        reserved = None if selected else self._reserved_for(claim)
        free = self._free_of(claim_class(claim))
        positions = NO_ROWS if selected or reserved is not None else free.suitable(claim, self._taken())
        room = self._room_for(claim, storage_class)
        return DelayedClaim(claim, storage_class, selected, reserved, free, positions, room)

    def _reserved_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        stored = map(self.volumes.latest, self.volumes.lister.by_index(BY_CLAIM, claim.key))
        known = (*stored, *self.volumes.assumed())
        return next((volume for volume in known if is_bound_to(volume, claim) and suits(volume, claim)), None)

    def _free_of(self, class_name: str) -> FreeVolumes:
        table = self._free.get(class_name)
        if table is None:
            table = self._free[class_name] = FreeVolumes()
        table.update(list(self.volumes.lister.by_index(FREE_BY_CLASS, class_name)))
        return table

    def _taken(self) -> list[str]:
        """Volumes that look free and are promised to a claim."""
        return [volume.metadata.name for volume in self.volumes.assumed()]

    def _room_for(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass
    ) -> tuple[CSIStorageCapacity, ...] | None:
        """Only drivers that say so measure their room; the first capacity that will do is the one that counts."""
        if STORAGE not in claim.spec.resources.requests or not provisions(storage_class):
            return None
        driver = self.drivers.get(storage_class.provisioner)
        if driver is None or not driver.spec.storage_capacity:
            return None
        size = whole(request_of(claim))
        known = self.capacities.by_index(CAPACITY_BY_CLASS, storage_class.metadata.name)
        enough = [capacity for capacity in known if (limit := volume_limit(capacity)) is not None and limit >= size]
        return tuple(sorted(enough, key=lambda capacity: capacity.key))


def _unusable(pod: Pod, claim: PersistentVolumeClaim | None, name: str, *, ephemeral: bool) -> str:
    """Why a claim cannot be used, "" where it can."""
    if claim is None:
        missing = not_found("persistentvolumeclaim", name)
        creating = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return creating if ephemeral else missing
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return not_owned(pod, claim) if ephemeral else ""


def _free_class(volume: PersistentVolume) -> Iterable[str]:
    return (volume_class(volume),) if is_free(volume) else ()


def _claim_key(volume: PersistentVolume) -> Iterable[str]:
    ref: Any = volume.spec.claim_ref
    return () if ref is None else (f"{ref.namespace}/{ref.name}",)
