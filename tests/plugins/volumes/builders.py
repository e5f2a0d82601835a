"""Volumes, claims, classes and what CSI drivers report, in one line each."""

from collections.abc import Iterable, Mapping
from typing import Any

from kube.api.core import (
    CSIPersistentVolumeSource,
    EphemeralVolumeSource,
    NodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Volume,
    VolumeNodeAffinity,
    VolumeResourceRequirements,
)
from kube.api.meta import LabelSelector, ObjectMeta, ObjectReference
from kube.api.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeResources,
)
from kube.api.volumes import BIND_COMPLETED, SELECTED_NODE
from tests.builders import HOSTNAME, ZONE, In, node_selector, requires

DRIVER = "csi.example.com"
DELAYED = "WaitForFirstConsumer"


def storage_class(
    name: str = "wait",
    *,
    mode: str | None = DELAYED,
    provisioner: str = DRIVER,
    topologies: Iterable[Mapping[str, Iterable[str]]] = (),
) -> StorageClass:
    """A class that binds late, unless mode says otherwise; `topologies`: label -> values, one mapping a term."""
    terms = tuple(
        TopologySelectorTerm(
            match_label_expressions=tuple(
                TopologySelectorLabelRequirement(key=key, values=tuple(values)) for key, values in term.items()
            )
        )
        for term in topologies
    )
    return StorageClass(
        metadata=ObjectMeta(name=name), provisioner=provisioner, volume_binding_mode=mode, allowed_topologies=terms
    )


def claim(
    name: str,
    *,
    namespace: str = "default",
    class_name: str | None = "wait",
    size: str = "1Gi",
    volume: str = "",
    complete: bool = True,
    selected_node: str | None = None,
    modes: Iterable[str] = ("ReadWriteOnce",),
    phase: str = "",
    deleting: bool = False,
    version: str = "",
    **fields: Any,
) -> PersistentVolumeClaim:
    """A claim; one that names its volume is fully bound, unless `complete` says otherwise."""
    annotations = {BIND_COMPLETED: "yes"} if volume and complete else {}
    if selected_node is not None:
        annotations[SELECTED_NODE] = selected_node
    owner = fields.pop("owner", None)
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{name}",
            annotations=annotations,
            resource_version=version,
            owner_references=(owner,) if owner else (),
            deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None,
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=tuple(modes),
            resources=VolumeResourceRequirements(requests={"storage": size} if size else {}),
            storage_class_name=class_name,
            volume_name=volume,
            **fields,
        ),
        status=PersistentVolumeClaimStatus(phase=phase or ("Bound" if volume else "Pending")),
    )


def volume(
    name: str,
    *,
    class_name: str = "wait",
    size: str = "1Gi",
    zone: str | None = None,
    host: str | None = None,
    nodes: NodeSelector | None = None,
    bound_to: str = "",
    bound_uid: str | None = None,
    modes: Iterable[str] = ("ReadWriteOnce",),
    phase: str = "",
    labels: Mapping[str, str] | None = None,
    deleting: bool = False,
    version: str = "",
    driver: str = DRIVER,
    **fields: Any,
) -> PersistentVolume:
    """A CSI volume; `bound_to` is namespace/claim. Free ones are Available."""
    if zone is not None or host is not None:
        nodes = node_selector(requires(ZONE, In, zone) if zone is not None else requires(HOSTNAME, In, str(host)))
    ref = None
    if bound_to:
        namespace, _, claim_name = bound_to.rpartition("/")
        uid = f"uid-{claim_name}" if bound_uid is None else bound_uid
        ref = ObjectReference(namespace=namespace or "default", name=claim_name, uid=uid)
    if driver:
        fields.setdefault("csi", CSIPersistentVolumeSource(driver=driver, volume_handle=f"handle-{name}"))
    return PersistentVolume(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            labels=dict(labels or {}),
            resource_version=version,
            deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None,
        ),
        spec=PersistentVolumeSpec(
            capacity={"storage": size},
            access_modes=tuple(modes),
            storage_class_name=class_name,
            claim_ref=ref,
            node_affinity=VolumeNodeAffinity(required=nodes) if nodes is not None else None,
            **fields,
        ),
        status=PersistentVolumeStatus(phase=phase or ("Bound" if bound_to else "Available")),
    )


def ephemeral(name: str) -> Volume:
    """A pod's volume whose claim is made for the pod."""
    return Volume(name=name, ephemeral=EphemeralVolumeSource())


def csi_node(
    name: str, limits: Mapping[str, int | None] | None = None, *, annotations: Mapping[str, str] | None = None
) -> CSINode:
    """What a node's drivers can attach; None: no limit."""
    drivers = tuple(
        CSINodeDriver(name=driver, allocatable=None if limit is None else VolumeNodeResources(count=limit))
        for driver, limit in (limits or {}).items()
    )
    meta = ObjectMeta(name=name, annotations=dict(annotations or {}))
    return CSINode(metadata=meta, spec=CSINodeSpec(drivers=drivers))


def csi_driver(name: str = DRIVER, **spec: Any) -> CSIDriver:
    """A driver."""
    return CSIDriver(metadata=ObjectMeta(name=name), spec=CSIDriverSpec(**spec))


def capacity(
    name: str,
    amount: str | None,
    *,
    class_name: str = "wait",
    zone: str | None = None,
    topology: LabelSelector | None = None,
    maximum: str | None = None,
) -> CSIStorageCapacity:
    """Room for volumes, in a zone."""
    if zone is not None:
        topology = LabelSelector(match_labels={ZONE: zone})
    return CSIStorageCapacity(
        metadata=ObjectMeta(name=name, namespace="kube-system"),
        node_topology=topology,
        storage_class_name=class_name,
        capacity=amount,
        maximum_volume_size=maximum,
    )


def attachment(name: str, node: str, volume_name: str | None, *, attacher: str = DRIVER) -> VolumeAttachment:
    """A volume that is attached to a node."""
    return VolumeAttachment(
        metadata=ObjectMeta(name=name),
        spec=VolumeAttachmentSpec(
            attacher=attacher, node_name=node, source=VolumeAttachmentSource(persistent_volume_name=volume_name)
        ),
    )
