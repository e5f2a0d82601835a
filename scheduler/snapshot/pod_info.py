"""PodInfo and PodShape: a pod, parsed once, with everything that replicas share interned into one shape.

Pods of one template differ in their names and little else. What plugins read of a pod (requests, ports,
affinity terms, tolerations…) is parsed once per shape, and the runtime keeps what it computed for a shape.

Owner of the shape table: the `ShapeTable` of a snapshot; shapes live as long as a pod or a cached result holds them.
Both classes are immutable after construction.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from kube.api import pod_requests
from kube.api.core import Container, Pod, PodAffinityTerm, Volume
from kube.api.labels import Requirements, SelectorError, compile_selector, requirements_of
from kube.api.meta import LabelSelector

_NATIVE = frozenset(("cpu", "memory", "ephemeral-storage"))
_VOLUME_SOURCES = tuple(name for name in Volume.__struct_fields__ if name != "name")
_but_resources = attrgetter(*(name for name in Container.__struct_fields__ if name not in {"name", "resources"}))
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A pod (anti-)affinity term, parsed; hashable, so that equal terms of many pods are one.

    `namespaces` already holds the pod's own namespace where the term names none and selects none (facts 2.5).
    `selector` None matches nothing; `namespace_selector` None selects no namespace, empty selects all.
    """

    topology_key: str
    namespaces: frozenset[str]
    selector: Requirements | None
    namespace_selector: Requirements | None = None
    weight: int = 0

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether a pod of that namespace with these labels is meant."""
        if self.selector is None or not compile_selector(self.selector)(labels):
            return False
        return self.selects_namespace(namespace, namespace_labels)

    def selects_namespace(self, namespace: str, namespace_labels: Mapping[str, str]) -> bool:
        """Whether pods of that namespace can be meant."""
        return namespace in self.namespaces or (
            self.namespace_selector is not None and compile_selector(self.namespace_selector)(namespace_labels)
        )


def _term(term: PodAffinityTerm, namespace: str, weight: int = 0) -> AffinityTerm:
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        topology_key=term.topology_key,
        namespaces=frozenset((namespace,)) if own else frozenset(term.namespaces),
        selector=_requirements(term.label_selector),
        namespace_selector=_requirements(term.namespace_selector),
        weight=weight,
    )


def _requirements(selector: LabelSelector | None) -> Requirements | None:
    """An invalid selector (the API server lets none in) selects nothing, as upstream ignores such terms."""
    try:
        return requirements_of(selector)
    except SelectorError:
        return None


class PodShape:
    """What plugins read of a pod and replicas share."""

    __slots__ = (
        "__weakref__",
        "_family_key",
        "class_key",
        "has_affinity",
        "host_ports",
        "key",
        "labels",
        "namespace",
        "non_zero_cpu",
        "non_zero_memory",
        "pod",
        "preferred_affinity",
        "preferred_anti_affinity",
        "requests",
        "required_affinity",
        "required_anti_affinity",
        "volumes",
    )

    def __init__(self, key: bytes, pod: Pod) -> None:
        spec, namespace = pod.spec, pod.metadata.namespace
        self.key = key
        self._family_key = b""
        #: a pod of this shape: read `spec`, labels and namespace from it, never its name or status
        self.pod = pod
        self.namespace = namespace
        self.labels: Mapping[str, str] = pod.metadata.labels
        #: by which terms of other pods know it
        self.class_key = (namespace, frozenset(self.labels.items()))
        #: cpu in milliCPU, the rest in base units, as spec says (a pending pod is sized from spec)
        self.requests: Mapping[str, int] = _counted(pod_requests.pod_requests(pod))
        self.non_zero_cpu, self.non_zero_memory = pod_requests.non_zero_requests(pod)
        #: (protocol, ip, port)
        self.host_ports: tuple[tuple[str, str, int], ...] = pod_requests.host_ports(pod)
        #: the volumes that scheduling looks at
        self.volumes: tuple[Volume, ...] = tuple(v for v in spec.volumes if _is_relevant(v))
        affinity = spec.affinity.pod_affinity if spec.affinity else None
        anti = spec.affinity.pod_anti_affinity if spec.affinity else None
        self.required_affinity = _required(affinity, namespace)
        self.required_anti_affinity = _required(anti, namespace)
        self.preferred_affinity = _preferred(affinity, namespace)
        self.preferred_anti_affinity = _preferred(anti, namespace)
        self.has_affinity = bool(
            self.required_affinity
            or self.required_anti_affinity
            or self.preferred_affinity
            or self.preferred_anti_affinity
        )

    @property
    def family_key(self) -> bytes:
        """Equal for shapes that differ in the amounts they request and in their claims, and in nothing else."""
        if not self._family_key:
            spec = self.pod.spec
            volumes = [_but_claim(volume) for volume in self.volumes]
            containers = (_but_amounts(spec.containers), _but_amounts(spec.init_containers), [*spec.overhead])
            self._family_key = _encode((_common(self.pod), containers, volumes, bool(spec.resource_claims)))
        return self._family_key


def _but_amounts(containers: Iterable[Container]) -> list[Any]:
    return [(_but_resources(c), [*c.resources.requests], [*c.resources.limits]) for c in containers]


def _but_claim(volume: Volume) -> Volume | None:
    """None for a claim: which one it is, each cycle looks up."""
    return volume if volume.persistent_volume_claim is None and volume.ephemeral is None else None


def _counted(requests: Mapping[str, int]) -> dict[str, int]:
    """The resources that a scheduler counts; unknown names are ignored (facts 2.1)."""
    return {name: n for name, n in requests.items() if name in _NATIVE or pod_requests.is_scalar_resource(name)}


def _required(terms: Any, namespace: str) -> tuple[AffinityTerm, ...]:
    if terms is None:
        return ()
    return tuple(_term(t, namespace) for t in terms.required_during_scheduling_ignored_during_execution)


def _preferred(terms: Any, namespace: str) -> tuple[AffinityTerm, ...]:
    if terms is None:
        return ()
    return tuple(
        _term(t.pod_affinity_term, namespace, t.weight)
        for t in terms.preferred_during_scheduling_ignored_during_execution
    )


class ShapeTable:
    """Pod to shape. Owner: the snapshot."""

    __slots__ = ("_shapes",)

    def __init__(self) -> None:
        self._shapes: weakref.WeakValueDictionary[bytes, PodShape] = weakref.WeakValueDictionary()

    def shape(self, pod: Pod) -> PodShape:
        """The shape of a pod; equal pods (but for name, status and node) get the same object."""
        key = _shape_key(pod)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = PodShape(key, pod)
        return shape

    def pod_info(self, pod: Pod) -> PodInfo:
        """The pod with its shape."""
        return PodInfo(pod, self.shape(pod))

    def __len__(self) -> int:
        return len(self._shapes)


def _shape_key(pod: Pod) -> bytes:
    """Everything plugins read but name, status, node and priority, as bytes.

    Claims are in it because volumes are found by them; an ephemeral volume's claim is named after the pod, so such pods
    are shapes of their own.
    """
    spec = pod.spec
    return _encode(
        (
            _common(pod),
            pod.metadata.name if any(v.ephemeral is not None for v in spec.volumes) else "",
            spec.containers,
            spec.init_containers,
            spec.overhead,
            spec.resources,
            [v for v in spec.volumes if _is_relevant(v)],
            spec.resource_claims,
        )
    )


def _common(pod: Pod) -> tuple[Any, ...]:
    """What shapes of a family have in common, but for their containers. Default spreading selects by the owner."""
    spec, meta = pod.spec, pod.metadata
    return (
        meta.namespace,
        meta.labels,
        next(((o.kind, o.name, o.uid) for o in meta.owner_references if o.controller), None),
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.scheduling_group,
        spec.os,
        spec.host_network,
    )


def _is_relevant(volume: Volume) -> bool:
    """Whether scheduling looks at this volume; token and config volumes differ in names only."""
    return any(getattr(volume, source) is not None for source in _VOLUME_SOURCES)


def uid_of(pod: Pod) -> str:
    """The key of a pod in every cache and pool; pods from files may have no UID."""
    return pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"


class PodInfo:
    """A pod as the cache, the queue and plugins hold it."""

    __slots__ = ("key", "non_zero_cpu", "non_zero_memory", "pod", "priority", "pvc_keys", "requests", "shape", "uid")

    def __init__(self, pod: Pod, shape: PodShape) -> None:
        meta = pod.metadata
        self.pod = pod
        self.shape = shape
        self.uid = uid_of(pod)
        self.key = f"{meta.namespace}/{meta.name}"
        self.priority = pod.spec.priority or 0
        #: what the pod takes from its node; an assigned pod in a resize takes more than its spec says (facts 2.1)
        self.requests: Mapping[str, int] = shape.requests
        self.non_zero_cpu, self.non_zero_memory = shape.non_zero_cpu, shape.non_zero_memory
        if pod.spec.node_name and _reports_resources(pod):
            self._size_from_status()
        #: "namespace/claim" of each claim the pod uses, ephemeral ones by their generated name
        self.pvc_keys: tuple[str, ...] = _pvc_keys(pod) if pod.spec.volumes else ()

    def on_node(self, node_name: str) -> PodInfo:
        """The same pod with a node: what the cache assumes. Nobody has sized it there yet."""
        copy = PodInfo.__new__(PodInfo)
        copy.pod = replace(self.pod, spec=replace(self.pod.spec, node_name=node_name))
        copy.shape, copy.uid, copy.key, copy.priority = self.shape, self.uid, self.key, self.priority
        copy.requests, copy.pvc_keys = self.requests, self.pvc_keys
        copy.non_zero_cpu, copy.non_zero_memory = self.non_zero_cpu, self.non_zero_memory
        return copy

    def _size_from_status(self) -> None:
        requests = _counted(pod_requests.pod_requests(self.pod, assigned=True))
        if requests != self.requests:
            self.requests = requests
            self.non_zero_cpu, self.non_zero_memory = pod_requests.non_zero_requests(self.pod, assigned=True)

    def is_like(self, other: PodInfo) -> bool:
        """Whether the two are the same to whoever counts pods on nodes; conditions and versions are not looked at."""
        pod, theirs = self.pod, other.pod
        return (
            self.shape is other.shape
            and self.requests == other.requests
            and self.priority == other.priority
            and self.pvc_keys == other.pvc_keys
            and self.terminating == other.terminating
            and pod.status.phase == theirs.status.phase
            and pod.status.start_time == theirs.status.start_time
            and pod.metadata.annotations == theirs.metadata.annotations
        )

    @property
    def terminating(self) -> bool:
        """Being deleted."""
        return self.pod.metadata.deletion_timestamp is not None

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"


def _reports_resources(pod: Pod) -> bool:
    status = pod.status
    return status.resources is not None or any(
        each.resources is not None or each.allocated_resources
        for each in (*status.container_statuses, *status.init_container_statuses)
    )


def _pvc_keys(pod: Pod) -> tuple[str, ...]:
    namespace, name = pod.metadata.namespace, pod.metadata.name
    keys = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            keys.append(f"{namespace}/{volume.persistent_volume_claim.claim_name}")
        elif volume.ephemeral is not None:
            keys.append(f"{namespace}/{name}-{volume.name}")
    return tuple(keys)
