"""Types of the storage.k8s.io/v1 group: classes, CSI drivers, their limits and capacities. Anybody may import it."""

# ruff: noqa: D101 - the types mirror Kubernetes' API reference, which documents them.

from typing import ClassVar

from msgspec import field

from kube.api.core import PersistentVolumeSpec
from kube.api.meta import ApiObject, LabelSelector, Object


class TopologySelectorLabelRequirement(Object, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Object, frozen=True):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "StorageClass"

    provisioner: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    allow_volume_expansion: bool | None = None


class VolumeNodeResources(Object, frozen=True):
    # None: the driver reports no limit.
    count: int | None = None


class CSINodeDriver(Object, frozen=True):
    name: str = ""
    node_id: str = field(default="", name="nodeID")
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Object, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "CSINode"

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Object, frozen=True):
    attach_required: bool | None = None
    pod_info_on_mount: bool | None = None
    storage_capacity: bool | None = None
    volume_lifecycle_modes: tuple[str, ...] = ()
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "CSIDriver"

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "CSIStorageCapacity"

    # None: the storage is reachable from no node.
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: str | None = None
    maximum_volume_size: str | None = None


class VolumeAttachmentSource(Object, frozen=True):
    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Object, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(Object, frozen=True):
    attached: bool = False


class VolumeAttachment(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    KIND: ClassVar[str] = "VolumeAttachment"

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
