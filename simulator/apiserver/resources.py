"""The table of what the API server serves: one `Resource` a row, and the `Registry` that finds them.

A resource is data: its names, whether it lives in a namespace, its subresources, the fields a selector may name. What
is special about pods, nodes or namespaces beyond that is in `defaults.py`, `validation.py` and `admission.py`.
Further resources (custom ones too) are registered on a server's own registry at any time; two rows may share one
storage, each with its own form of the same object, as Events do. Nothing here holds objects.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from simulator.apiserver.errors import Object

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
FieldPath = tuple[str, ...]


@dataclass(frozen=True)
class Conversion:
    """How objects of a resource are turned into the form the store keeps, and back."""

    to_storage: Callable[[Object], Object]
    from_storage: Callable[[Object], Object]


@dataclass(frozen=True, eq=False)
class Resource:
    """One served resource in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    fields: dict[str, FieldPath] = field(default_factory=dict)
    """Field selectors beyond metadata.name and metadata.namespace; values other than strings compare as JSON."""
    counts_generations: bool = False
    status_at_creation: bool = False
    """Whether a new object may bring its status; else status is only written through its subresource."""
    returns_deleted: bool = False
    """Whether DELETE answers with the object; else with a Status."""
    verbs: tuple[str, ...] = VERBS
    storage: str = ""
    """Name of the collection the objects are kept in; by default the resource's own."""
    conversion: Conversion | None = None
    strategic_merge: bool = True
    """Custom resources have no merge keys and take no strategic-merge patch."""

    @cached_property
    def api_version(self) -> str:
        """Group and version as objects spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def qualified(self) -> str:
        """Plural and group, as in messages: `replicasets.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def collection(self) -> str:
        """Name of the collection in the store."""
        return self.storage or self.qualified

    @cached_property
    def list_kind(self) -> str:
        """Kind of a list of these."""
        return f"{self.kind}List"

    @cached_property
    def head(self) -> bytes:
        """The bytes each encoded object of this resource starts with; list items are cut behind it."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    @cached_property
    def has_status(self) -> bool:
        """Whether status is written through a subresource of its own."""
        return "status" in self.subresources

    def typed(self, body: Object) -> Object:
        """Give the object with kind and apiVersion of this resource in front."""
        typed = {"kind": self.kind, "apiVersion": self.api_version, **body}
        typed["kind"] = self.kind
        typed["apiVersion"] = self.api_version
        return typed


def _rename(names: dict[str, str], kind: str, api_version: str) -> Callable[[Object], Object]:
    def convert(body: Object) -> Object:
        renamed = {"kind": kind, "apiVersion": api_version}
        renamed |= {names.get(key, key): value for key, value in body.items() if key not in ("kind", "apiVersion")}
        return renamed

    return convert


_EVENT_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_EVENT_CONVERSION = Conversion(
    to_storage=_rename(_EVENT_NAMES, "Event", "v1"),
    from_storage=_rename({core: new for new, core in _EVENT_NAMES.items()}, "Event", "events.k8s.io/v1"),
)
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS: dict[str, FieldPath] = {
    **{f"involvedObject.{part}": ("involvedObject", part) for part in _INVOLVED},
    **{f"regarding.{part}": ("involvedObject", part) for part in _INVOLVED},
    "reason": ("reason",),
    "type": ("type",),
    "source": ("source", "component"),
    "reportingComponent": ("reportingComponent",),
    "reportingController": ("reportingComponent",),
}
_POD_FIELDS: dict[str, FieldPath] = {
    "spec.nodeName": ("spec", "nodeName"),
    "spec.schedulerName": ("spec", "schedulerName"),
    "spec.restartPolicy": ("spec", "restartPolicy"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
    "spec.hostNetwork": ("spec", "hostNetwork"),
    "status.phase": ("status", "phase"),
    "status.podIP": ("status", "podIP"),
    "status.nominatedNodeName": ("status", "nominatedNodeName"),
}
_ALL = ("all",)
_STATUS = ("status",)
_SCALED = ("scale", "status")

BUILT_IN: tuple[Resource, ...] = (
    Resource("", "v1", "Binding", "bindings", verbs=("create",)),
    Resource(
        "", "v1", "Pod", "pods",
        short_names=("po",), categories=_ALL, subresources=("binding", "eviction", "status"), fields=_POD_FIELDS,
        counts_generations=True, returns_deleted=True,
    ),
    Resource(
        "", "v1", "Node", "nodes",
        namespaced=False, short_names=("no",), subresources=_STATUS, status_at_creation=True,
        fields={"spec.unschedulable": ("spec", "unschedulable")},
    ),
    Resource(
        "", "v1", "Namespace", "namespaces",
        namespaced=False, short_names=("ns",), subresources=("finalize", "status"), returns_deleted=True,
        fields={"status.phase": ("status", "phase")},
    ),
    Resource("", "v1", "Service", "services",
             short_names=("svc",), categories=_ALL, subresources=_STATUS, returns_deleted=True),
    Resource("", "v1", "ReplicationController", "replicationcontrollers",
             short_names=("rc",), categories=_ALL, subresources=_SCALED, counts_generations=True,
             fields={"status.replicas": ("status", "replicas")}),
    Resource("", "v1", "PersistentVolume", "persistentvolumes",
             namespaced=False, short_names=("pv",), subresources=_STATUS, returns_deleted=True),
    Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims",
             short_names=("pvc",), subresources=_STATUS, returns_deleted=True),
    Resource("", "v1", "ConfigMap", "configmaps", short_names=("cm",)),
    Resource("", "v1", "Secret", "secrets", fields={"type": ("type",)}),
    Resource("", "v1", "ServiceAccount", "serviceaccounts", short_names=("sa",), returns_deleted=True),
    Resource("", "v1", "Event", "events", short_names=("ev",), fields=_EVENT_FIELDS, storage="events"),
    Resource("events.k8s.io", "v1", "Event", "events",
             short_names=("ev",), fields=_EVENT_FIELDS, storage="events", conversion=_EVENT_CONVERSION),
    Resource("apps", "v1", "ReplicaSet", "replicasets",
             short_names=("rs",), categories=_ALL, subresources=_SCALED, counts_generations=True,
             fields={"status.replicas": ("status", "replicas")}),
    Resource("apps", "v1", "Deployment", "deployments",
             short_names=("deploy",), categories=_ALL, subresources=_SCALED, counts_generations=True),
    Resource("apps", "v1", "StatefulSet", "statefulsets",
             short_names=("sts",), categories=_ALL, subresources=_SCALED, counts_generations=True),
    Resource("apps", "v1", "DaemonSet", "daemonsets",
             short_names=("ds",), categories=_ALL, subresources=_STATUS, counts_generations=True),
    Resource("apps", "v1", "ControllerRevision", "controllerrevisions"),
    Resource("batch", "v1", "CronJob", "cronjobs",
             short_names=("cj",), categories=_ALL, subresources=_STATUS, counts_generations=True),
    Resource("batch", "v1", "Job", "jobs",
             categories=_ALL, subresources=_STATUS, counts_generations=True,
             fields={"status.successful": ("status", "succeeded")}),
    Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets",
             short_names=("pdb",), subresources=_STATUS, counts_generations=True),
    Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False, short_names=("pc",)),
    Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False, short_names=("sc",)),
    Resource("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False),
    Resource("storage.k8s.io", "v1", "CSIDriver", "csidrivers", namespaced=False),
    Resource("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities"),
    Resource("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", namespaced=False, subresources=_STATUS),
    Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", subresources=_STATUS),
    Resource("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
    Resource("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False, counts_generations=True),
    Resource("resource.k8s.io", "v1", "ResourceSlice", "resourceslices",
             namespaced=False, counts_generations=True,
             fields={"spec.nodeName": ("spec", "nodeName"), "spec.driver": ("spec", "driver")}),
    Resource("coordination.k8s.io", "v1", "Lease", "leases"),
)  # fmt: skip

#: kinds that generated clients have no types for: nothing but their names is known of them
POD_GROUPS: tuple[Resource, ...] = tuple(
    Resource(group, version, kind, plural, subresources=subresources, counts_generations=True, strategic_merge=False)
    for group, version, kind, plural, subresources in (
        ("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", _STATUS),
        ("scheduling.k8s.io", "v1alpha2", "Workload", "workloads", ()),
        ("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", _STATUS),
    )
)


class Registry:
    """The resources of one server. Owner: `ApiServer`."""

    def __init__(self, resources: tuple[Resource, ...] = BUILT_IN + POD_GROUPS) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        for resource in resources:
            self.register(resource)

    def register(self, resource: Resource) -> None:
        """Serve one more resource."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.api_version, resource.kind] = resource

    def unregister(self, group: str, version: str, plural: str) -> None:
        """Stop serving a resource, as an older API server would not have it; its objects stay in the store."""
        resource = self._by_path.pop((group, version, plural))
        del self._by_kind[resource.api_version, resource.kind]

    def by_path(self, group: str, version: str, plural: str) -> Resource | None:
        """Find the resource behind a URL."""
        return self._by_path.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """Find the resource an object belongs to."""
        return self._by_kind.get((api_version, kind))

    def __iter__(self) -> Iterator[Resource]:
        """Go through all resources in the order they were registered."""
        return iter(self._by_path.values())
