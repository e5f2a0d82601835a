"""What an API server would have filled in: defaults and admission, on dicts and in place, without a server.

`Defaults` is made once for a load, from the PriorityClasses and StorageClasses of the input;
`simulator.load.cluster_objects` calls it for each object. Applying it twice changes nothing. It never judges an object
(see `checks`) and never adds objects.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kube.api.meta import ObjectMeta
from kube.api.volumes import CLASS_ANNOTATION, default_class
from simulator.load.problems import Problems

Body = dict[str, Any]

DEFAULT_NAMESPACE = "default"
DEFAULT_SCHEDULER = "default-scheduler"
NAME_LABEL = "kubernetes.io/metadata.name"


class Priority(NamedTuple):
    """A PriorityClass as far as admission uses it."""

    name: str
    value: int
    preemption_policy: str
    global_default: bool = False


# The two classes every API server creates at start.
SYSTEM_CLASSES = (
    Priority("system-cluster-critical", 2_000_000_000, "PreemptLowerPriority"),
    Priority("system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
)
_NO_CLASS = Priority("", 0, "PreemptLowerPriority")


def mapping(parent: Body, key: str) -> Body:
    """The mapping under `key`, made there if absent or null; anything else is left for the checks to name."""
    value = parent.get(key)
    if value is None:
        value = parent[key] = {}
    return value if isinstance(value, dict) else {}


def optional(parent: Any, key: str) -> Body:
    """The mapping under `key` or an empty one, without adding it."""
    value = parent.get(key) if isinstance(parent, dict) else None
    return value if isinstance(value, dict) else {}


def mappings(parent: Any, key: str) -> list[Body]:
    """The mappings in the list under `key`; what is of another type is left for the checks to name."""
    value = parent.get(key) if isinstance(parent, dict) else None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def synthetic_uid(*parts: str) -> str:
    """A UID that depends on nothing but the object's identity, so that two loads agree."""
    digest = hashlib.md5("/".join(parts).encode(), usedforsecurity=False).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


def default_storage_class(bodies: Iterable[Body], known: Iterable[ObjectMeta]) -> str | None:
    """The default among the input's StorageClass objects and those known before."""
    metas = [optional(body, "metadata") for body in bodies]
    found = [
        (str(meta.get("name", "")), optional(meta, "annotations"), str(meta.get("creationTimestamp") or ""))
        for meta in metas
    ]
    return default_class([*found, *((meta.name, meta.annotations, meta.creation_timestamp) for meta in known)])


def priority_classes(bodies: Iterable[Body]) -> list[Priority]:
    """The classes of the input's PriorityClass objects, malformed ones left out (the checks name them)."""
    found = []
    for body in bodies:
        name, value = optional(body, "metadata").get("name"), body.get("value", 0)
        if isinstance(name, str) and isinstance(value, int):
            policy = body.get("preemptionPolicy") or "PreemptLowerPriority"
            found.append(Priority(name, value, policy, body.get("globalDefault") is True))
    return found


class Defaults:
    """Fills in defaults; holds the priority classes of one load. Owned by that load.

    `storage_class`: the default one, which claims get that name none.
    """

    def __init__(self, classes: Iterable[Priority], problems: Problems, storage_class: str | None = None) -> None:
        self._classes = {known.name: known for known in (*SYSTEM_CLASSES, *classes)}
        # Of several global defaults the API server's admission takes the lowest.
        defaults = sorted((known for known in self._classes.values() if known.global_default), key=lambda c: c.value)
        self._default = defaults[0] if defaults else _NO_CLASS
        self._problems = problems
        self._storage_class = storage_class
        self._generated: Counter[str] = Counter()

    def apply(self, body: Body, where: object, *, namespaced: bool = True) -> None:
        """Fill in `body` (of any kind) in place; `where` names it in warnings."""
        kind = body["kind"]
        meta = mapping(body, "metadata")
        if namespaced and not meta.get("namespace"):
            meta["namespace"] = DEFAULT_NAMESPACE
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self._generated_name(str(meta["generateName"]))
        if not meta.get("uid"):
            meta["uid"] = synthetic_uid(kind, str(meta.get("namespace", "")), str(meta.get("name", "")))
        if kind == "Pod":
            self._pod(body, where)
        elif kind == "PersistentVolumeClaim":
            _claim(body, self._storage_class)
        elif kind in _BY_KIND:
            _BY_KIND[kind](body)

    def _generated_name(self, prefix: str) -> str:
        """`prefix0`, `prefix1` …: a server would add five letters at random, which no two loads would agree on."""
        self._generated[prefix] += 1
        return f"{prefix}{self._generated[prefix] - 1}"

    def _pod(self, body: Body, where: object) -> None:
        spec = mapping(body, "spec")
        _pod_spec(spec)
        self._priority(spec, where)
        mapping(body, "status").setdefault("phase", "Pending")
        # Merging label keys is part of creation, so only a pod that is created here goes through it.
        if not spec.get("nodeName") and spec.get("affinity"):
            spec["affinity"] = merge_label_keys(spec["affinity"], optional(body["metadata"], "labels"))

    def _priority(self, spec: Body, where: object) -> None:
        if spec.get("priority") is not None:
            return
        name = spec.get("priorityClassName")
        known = self._classes.get(name) if isinstance(name, str) and name else self._default
        if known is None:
            # Once for each class: a dump may hold thousands of its pods.
            known = self._classes[str(name)] = _NO_CLASS
            self._problems.warn(where, f"spec.priorityClassName: no PriorityClass {name} in the input, priority 0")
        elif not name and known.name:
            spec["priorityClassName"] = known.name
        spec["priority"] = known.value
        if spec.get("preemptionPolicy") is None:
            spec["preemptionPolicy"] = known.preemption_policy


# --- pods --------------------------------------------------------------------------------------------------------


def _pod_spec(spec: Body) -> None:
    spec["schedulerName"] = spec.get("schedulerName") or DEFAULT_SCHEDULER
    spec["restartPolicy"] = spec.get("restartPolicy") or "Always"
    host_network = spec.get("hostNetwork") is True
    for container in containers_of(spec):
        for port in mappings(container, "ports"):
            _port(port, host_network)
        if container.get("resources"):
            _requests_from_limits(optional(container, "resources"))
    _pod_level_requests(spec)
    if spec.get("overhead"):
        quantities_to_text(spec, "overhead")


def containers_of(spec: Any) -> Iterator[Body]:
    """Init and regular containers."""
    yield from mappings(spec, "initContainers")
    yield from mappings(spec, "containers")


def _port(port: Body, host_network: bool) -> None:
    if not port.get("protocol"):
        port["protocol"] = "TCP"
    if host_network and not port.get("hostPort"):
        port["hostPort"] = port.get("containerPort", 0)


def _requests_from_limits(resources: Body) -> None:
    quantities_to_text(resources, "requests")
    limits = quantities_to_text(resources, "limits")
    if limits:
        resources["requests"] = {**limits, **optional(resources, "requests")}


def _pod_level_requests(spec: Body) -> None:
    """Pod-level limits become requests where no container has one; hugepages always do (they cannot be overcommitted).

    Where containers do have one, the server writes their sum, which changes nothing: the sum counts without it too.
    """
    if not spec.get("resources"):
        return
    resources = optional(spec, "resources")
    requests, limits = quantities_to_text(resources, "requests"), quantities_to_text(resources, "limits")
    if not limits:
        return
    asked = {key for container in containers_of(spec) for key in optional(optional(container, "resources"), "requests")}
    for key, value in limits.items():
        huge = key.startswith("hugepages-")
        if key not in requests and (huge or (key in ("cpu", "memory") and key not in asked)):
            requests = resources["requests"] = {**requests, key: value}


def quantities_to_text(parent: Body, key: str) -> Body:
    """Quantities may be written as integers; an API server always answers with text."""
    quantities = optional(parent, key)
    for name, value in quantities.items():
        if type(value) is int:
            quantities[name] = str(value)
    return quantities


def merge_label_keys(affinity: Any, labels: Body) -> Any:
    """matchLabelKeys and mismatchLabelKeys of pod affinity terms become expressions of their label selectors.

    The result is a copy where anything was merged: replicas of one template share their affinity.
    """
    if not any(term.get(field) for term in _pod_affinity_terms(affinity) for field in _LABEL_KEY_FIELDS):
        return affinity
    merged = copy.deepcopy(affinity)
    for term in _pod_affinity_terms(merged):
        for field, operator in _LABEL_KEY_FIELDS.items():
            keys = term.get(field)
            for key in keys if isinstance(keys, list) else ():
                if isinstance(key, str) and key in labels:
                    _add_expression(term, {"key": key, "operator": operator, "values": [labels[key]]})
    return merged


_LABEL_KEY_FIELDS = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}


def _pod_affinity_terms(affinity: Any) -> Iterator[Body]:
    for side in ("podAffinity", "podAntiAffinity"):
        rules = optional(affinity, side)
        yield from mappings(rules, "requiredDuringSchedulingIgnoredDuringExecution")
        for weighted in mappings(rules, "preferredDuringSchedulingIgnoredDuringExecution"):
            yield optional(weighted, "podAffinityTerm")


def _add_expression(term: Body, expression: Body) -> None:
    selector = term.get("labelSelector")
    if not isinstance(selector, dict):
        return
    expressions = selector.get("matchExpressions") or []
    if isinstance(expressions, list) and expression not in expressions:
        selector["matchExpressions"] = [*expressions, expression]


# --- other kinds -------------------------------------------------------------------------------------------------


def _node(body: Body) -> None:
    status = mapping(body, "status")
    capacity = quantities_to_text(status, "capacity")
    quantities_to_text(status, "allocatable")
    if status.get("allocatable") is None and capacity:
        status["allocatable"] = dict(capacity)


def _namespace(body: Body) -> None:
    mapping(body["metadata"], "labels")[NAME_LABEL] = body["metadata"].get("name", "")
    mapping(body, "status").setdefault("phase", "Active")


def _claim(body: Body, storage_class: str | None) -> None:
    spec = mapping(body, "spec")
    named = spec.get("storageClassName") is not None or CLASS_ANNOTATION in optional(body["metadata"], "annotations")
    # A claim that has its volume was made before the class was there, or without it.
    if storage_class is not None and not named and not spec.get("volumeName"):
        spec["storageClassName"] = storage_class
    spec.setdefault("volumeMode", "Filesystem")
    quantities_to_text(optional(spec, "resources"), "requests")
    mapping(body, "status").setdefault("phase", "Pending")


def _volume(body: Body) -> None:
    spec = mapping(body, "spec")
    spec.setdefault("volumeMode", "Filesystem")
    quantities_to_text(spec, "capacity")
    # The volume controller's part: without a phase no claim would ever find the volume.
    bound = optional(spec, "claimRef").get("uid")
    mapping(body, "status").setdefault("phase", "Bound" if bound else "Available")


def _storage_class(body: Body) -> None:
    body.setdefault("volumeBindingMode", "Immediate")
    body.setdefault("reclaimPolicy", "Delete")


def _workload_selector(body: Body) -> None:
    """Old manifests (and ReplicationControllers still) may leave the selector to the template's labels."""
    spec = mapping(body, "spec")
    labels = optional(optional(spec.get("template"), "metadata"), "labels")
    if not spec.get("selector") and labels:
        spec["selector"] = dict(labels) if body["kind"] == "ReplicationController" else {"matchLabels": dict(labels)}


def _priority_class(body: Body) -> None:
    body.setdefault("preemptionPolicy", "PreemptLowerPriority")


_BY_KIND: dict[str, Callable[[Body], None]] = {
    "Node": _node,
    "Namespace": _namespace,
    "PersistentVolume": _volume,
    "StorageClass": _storage_class,
    "PriorityClass": _priority_class,
    "Deployment": _workload_selector,
    "ReplicaSet": _workload_selector,
    "StatefulSet": _workload_selector,
    "DaemonSet": _workload_selector,
    "ReplicationController": _workload_selector,
}
