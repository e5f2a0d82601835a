"""The table of API resources: group, version, path, kind and type of everything podium reads or writes.

Anybody may import it; it performs no requests. `alternatives` are the older versions a server may offer instead, in
order of preference; they have the same fields as far as the types read them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import quote

from kube.api import apps, coordination, core, events, policy, resource, scheduling, storage, workload
from kube.api.meta import ApiObject

#: whether a part of a path is one as it is: every valid name
_PLAIN = re.compile(r"[A-Za-z0-9.-]*").fullmatch


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object and where the API server keeps it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[ApiObject]
    alternatives: tuple[str, ...] = ()
    #: a custom resource: its kind alone does not say which one is meant
    custom: bool = False
    #: most servers do not have it, and nothing is wrong with that
    optional: bool = False

    @property
    def listed_as(self) -> str:
        """Under what plugins ask for its objects and their events: the kind, or `plural.version.group`."""
        return f"{self.plural}.{self.version}.{self.group}" if self.custom else self.kind

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`, as in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """`pods` or `poddisruptionbudgets.policy`, as kubectl and RBAC messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path on the API server; without namespace all of them, without name the collection."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", _segment(namespace)]
        parts.append(self.plural)
        if name:
            parts.append(_segment(name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def at_version(self, version: str) -> "Resource":
        """The same resource at another version of its group."""
        return replace(self, version=version)


def _segment(text: str) -> str:
    return text if _PLAIN(text) else quote(text, safe="")


def _v1(type_: type[ApiObject], plural: str, *, namespaced: bool = True, alternatives: Iterable[str] = ()) -> Resource:
    group, _, version = type_.API_VERSION.rpartition("/")
    return Resource(group, version, plural, type_.KIND, namespaced, type_, tuple(alternatives))


PODS = _v1(core.Pod, "pods")
NODES = _v1(core.Node, "nodes", namespaced=False)
NAMESPACES = _v1(core.Namespace, "namespaces", namespaced=False)
SERVICES = _v1(core.Service, "services")
REPLICATION_CONTROLLERS = _v1(core.ReplicationController, "replicationcontrollers")
PERSISTENT_VOLUMES = _v1(core.PersistentVolume, "persistentvolumes", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = _v1(core.PersistentVolumeClaim, "persistentvolumeclaims")
REPLICA_SETS = _v1(apps.ReplicaSet, "replicasets")
STATEFUL_SETS = _v1(apps.StatefulSet, "statefulsets")
STORAGE_CLASSES = _v1(storage.StorageClass, "storageclasses", namespaced=False, alternatives=["v1beta1"])
CSI_NODES = _v1(storage.CSINode, "csinodes", namespaced=False, alternatives=["v1beta1"])
CSI_DRIVERS = _v1(storage.CSIDriver, "csidrivers", namespaced=False, alternatives=["v1beta1"])
CSI_STORAGE_CAPACITIES = _v1(storage.CSIStorageCapacity, "csistoragecapacities", alternatives=["v1beta1", "v1alpha1"])
VOLUME_ATTACHMENTS = _v1(storage.VolumeAttachment, "volumeattachments", namespaced=False, alternatives=["v1beta1"])
POD_DISRUPTION_BUDGETS = _v1(policy.PodDisruptionBudget, "poddisruptionbudgets", alternatives=["v1beta1"])
PRIORITY_CLASSES = _v1(scheduling.PriorityClass, "priorityclasses", namespaced=False, alternatives=["v1beta1"])
_OLDER_DRA = ("v1beta2", "v1beta1")
RESOURCE_SLICES = _v1(resource.ResourceSlice, "resourceslices", namespaced=False, alternatives=_OLDER_DRA)
DEVICE_CLASSES = _v1(resource.DeviceClass, "deviceclasses", namespaced=False, alternatives=_OLDER_DRA)
RESOURCE_CLAIMS = _v1(resource.ResourceClaim, "resourceclaims", alternatives=_OLDER_DRA)
RESOURCE_CLAIM_TEMPLATES = _v1(resource.ResourceClaimTemplate, "resourceclaimtemplates", alternatives=_OLDER_DRA)
LEASES = _v1(coordination.Lease, "leases", alternatives=["v1beta1"])
EVENTS = _v1(events.Event, "events", alternatives=["v1beta1"])
POD_GROUPS = replace(_v1(workload.PodGroup, "podgroups", alternatives=["v1alpha2"]), optional=True)
WORKLOADS = replace(_v1(workload.Workload, "workloads", alternatives=["v1alpha2", "v1alpha1"]), optional=True)
COSCHEDULING_POD_GROUPS = replace(_v1(workload.CoschedulingPodGroup, "podgroups"), custom=True, optional=True)

RESOURCES: tuple[Resource, ...] = (
    PODS,
    NODES,
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    REPLICA_SETS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
    POD_DISRUPTION_BUDGETS,
    PRIORITY_CLASSES,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    LEASES,
    EVENTS,
    POD_GROUPS,
    WORKLOADS,
    COSCHEDULING_POD_GROUPS,
)

_BY_KIND = {(resource.group, resource.kind): resource for resource in RESOURCES}
_BY_PLURAL = {(resource.group, resource.plural): resource for resource in RESOURCES}
_BY_TYPE = {resource.type: resource for resource in RESOURCES}


def by_kind(api_version: str, kind: str) -> Resource | None:
    """The resource of a manifest's `apiVersion` and `kind`, whatever the version; None if podium does not know it."""
    group, _, _ = api_version.rpartition("/")
    return _BY_KIND.get((group, kind))


def by_plural(plural: str, group: str = "") -> Resource | None:
    """The resource of a path's group and plural name."""
    return _BY_PLURAL.get((group, plural))


def by_type(type_: type[ApiObject]) -> Resource:
    """The resource whose objects have this type."""
    return _BY_TYPE[type_]
