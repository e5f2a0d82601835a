"""Volumes and claims: which claims a pod uses, when a claim is bound, which volume suits a claim on which node.

Anybody may call it; these are the readable rules for one object or one node. It never looks anything up: whoever has
the claim, the volume or the class hands it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kube.api import quantity
from kube.api.core import NodeSelector, PersistentVolume, PersistentVolumeClaim, Pod, Volume
from kube.api.meta import ObjectMeta, controller_of
from kube.api.node_affinity import match_node_selector
from kube.api.storage import CSIStorageCapacity, StorageClass, TopologySelectorTerm

STORAGE = "storage"
FILESYSTEM = "Filesystem"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

#: on a claim: it has been bound completely; the value does not matter
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
#: on a volume or claim: not its author but a controller bound it
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
#: on a claim: the node for which a volume shall be provisioned
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: what storageClassName was called before 1.6; still wins where it is set
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
#: on a class: it is that of claims that name none
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


# --- a pod and its claims ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A claim that a pod uses, by the name it has (or will have once the ephemeral volume controller made it)."""

    name: str
    ephemeral: bool


def claim_uses(pod: Pod) -> Iterator[ClaimUse]:
    """The claims of a pod, in the order of its volumes."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(volume.persistent_volume_claim.claim_name, ephemeral=False)
        elif volume.ephemeral is not None:
            yield ClaimUse(f"{pod.metadata.name}-{volume.name}", ephemeral=True)


def uses_claim(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether the pod names the claim, or its ephemeral volume will have that name."""
    meta = claim.metadata
    return pod.metadata.namespace == meta.namespace and any(use.name == meta.name for use in claim_uses(pod))


def has_claim(volume: Volume) -> bool:
    """Whether a volume is backed by a claim."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def not_owned(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """What is wrong where the claim of an ephemeral volume was not made for this pod; "" where nothing is."""
    owner = controller_of(claim.metadata)
    if owner is not None and owner.uid == pod.metadata.uid:
        return ""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def not_found(kind: str, name: str) -> str:
    """The API server's words: `persistentvolumeclaim "data" not found`."""
    return f'{kind} "{name}" not found'


# --- classes and binding -----------------------------------------------------------------------------------------


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The name of the claim's storage class, "" for none."""
    return claim.metadata.annotations.get(CLASS_ANNOTATION) or claim.spec.storage_class_name or ""


def is_default_class(annotations: Mapping[str, str]) -> bool:
    """Whether claims that name no class get this one when they are made."""
    return any(annotations.get(key) == "true" for key in DEFAULT_CLASS)


def default_class(classes: Iterable[tuple[str, Mapping[str, str], str]]) -> str | None:
    """The default among (name, annotations, creationTimestamp): of several the newest, then the first by name."""
    defaults = sorted((name, created) for name, annotations, created in classes if is_default_class(annotations))
    newest = max((created for _, created in defaults), default="")
    return next((name for name, created in defaults if created == newest), None)


def volume_class(volume: PersistentVolume) -> str:
    """The name of the volume's storage class, "" for none."""
    return volume.metadata.annotations.get(CLASS_ANNOTATION) or volume.spec.storage_class_name


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Bound from both sides: it names its volume and the controller has finished."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def waits_for_consumer(storage_class: StorageClass) -> bool:
    """Whether claims of the class are bound once a pod that uses them has a node."""
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def provisions(storage_class: StorageClass) -> bool:
    """Whether somebody makes volumes of this class on demand."""
    return storage_class.provisioner not in ("", NO_PROVISIONER)


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is reserved for the claim; a reference without UID is one that its author wrote."""
    ref = volume.spec.claim_ref
    if ref is None or ref.name != claim.metadata.name or ref.namespace != claim.metadata.namespace:
        return False
    return not ref.uid or ref.uid == claim.metadata.uid


def request_of(claim: PersistentVolumeClaim) -> int:
    """The size the claim asks for, exact, in nanos; 0 where it names none."""
    return quantity.nanos(claim.spec.resources.requests.get(STORAGE, "0"))


def capacity_of(volume: PersistentVolume) -> int:
    """The size of the volume, exact, in nanos."""
    return quantity.nanos(volume.spec.capacity.get(STORAGE, "0"))


# --- which volume for which claim --------------------------------------------------------------------------------


def suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume will do for a claim, reserved for it or not; labels and nodes left aside."""
    return (
        volume_class(volume) == claim_class(claim)
        and capacity_of(volume) >= request_of(claim)
        and (volume.spec.volume_mode or FILESYSTEM) == (claim.spec.volume_mode or FILESYSTEM)
        and (volume.spec.volume_attributes_class_name or "") == (claim.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def offers_modes(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a free volume has every access mode the claim asks for; a reserved one is not asked."""
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def is_free(volume: PersistentVolume) -> bool:
    """Whether a volume may be given to any claim."""
    return volume.spec.claim_ref is None and volume.status.phase == "Available"


def required_affinity(volume: PersistentVolume) -> NodeSelector | None:
    """The nodes the volume can be reached from; None: all."""
    return volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None


def reachable(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels reaches the volume. Only labels count, the node's name does not."""
    required = required_affinity(volume)
    return required is None or match_node_selector(required, labels, "")


# --- provisioning ------------------------------------------------------------------------------------------------


def topology_allowed(terms: tuple[TopologySelectorTerm, ...], labels: Mapping[str, str]) -> bool:
    """Whether volumes may be made for a node: one of the terms holds, or there are none. An empty term never holds."""
    return not terms or any(
        term.match_label_expressions and all(labels.get(e.key) in e.values for e in term.match_label_expressions)
        for term in terms
    )


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume that can be made, in bytes; None where the driver does not say."""
    limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return None if limit is None else quantity.value(limit)


def is_newer(meta: ObjectMeta, than: ObjectMeta) -> bool:
    """Whether an object is of a later resourceVersion; versions that are no numbers are never later."""
    return _version(meta) > _version(than)


def _version(meta: ObjectMeta) -> int:
    return int(meta.resource_version) if meta.resource_version.isdecimal() else 0
