"""All objects of the input as one cluster: read, filled in, checked, expanded, typed. The door of `simulator.load`.

`load` makes the cluster of `simulate -f`, `load_pods` the pods of `--pods`. Both raise one LoadError that names every
problem, or return values that nobody changes afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kube.api.codec import DecodeError, convert
from kube.api.core import Namespace, NamespaceStatus, Node, Pod, PodSpec
from kube.api.meta import ApiObject, ObjectMeta
from kube.api.resources import NODES, PODS, Resource, by_kind, by_type
from simulator.load.checks import check
from simulator.load.conversion import explain
from simulator.load.defaults import (
    DEFAULT_NAMESPACE,
    NAME_LABEL,
    Body,
    Defaults,
    Priority,
    default_storage_class,
    optional,
    priority_classes,
)
from simulator.load.files import Document, read
from simulator.load.problems import Origin, Problems
from simulator.load.workloads import (
    WORKLOADS,
    Census,
    Expansion,
    InvalidWorkloadError,
    assume_counts,
    template_path,
)

_FINISHED = ("Succeeded", "Failed")
# Workloads of these groups; another group's Job or Deployment is something else.
_WORKLOAD_GROUPS = ("", "apps", "batch", "extensions")
Key = tuple[str, str, str]  # kind, namespace, name


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """Typed objects in the order of the input. `ignored` counts what podium does not read, by kind and version."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    others: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)

    @property
    def running(self) -> tuple[Pod, ...]:
        """Pods that have a node."""
        return tuple(pod for pod in self.pods if pod.spec.node_name)

    @property
    def pending(self) -> tuple[Pod, ...]:
        """Pods without a node, nominated ones included."""
        return tuple(pod for pod in self.pods if not pod.spec.node_name)

    @property
    def nominated(self) -> tuple[Pod, ...]:
        """Pending pods that a preemption has already promised a node."""
        return tuple(pod for pod in self.pods if not pod.spec.node_name and pod.status.nominated_node_name)

    def of_kind(self, kind: str) -> tuple[Any, ...]:
        """All objects of a kind, nodes and pods included."""
        if kind in (NODES.kind, PODS.kind):
            return self.nodes if kind == NODES.kind else self.pods
        return self.others.get(kind, ())


def load(paths: Iterable[str], *, gpu_share: bool = False) -> ClusterObjects:
    """The cluster that all objects of these files make up; raises LoadError. `gpu_share`: see `traces`."""
    return _Load(ClusterObjects()).run(paths, gpu_share=gpu_share)


def load_pods(paths: Iterable[str], cluster: ClusterObjects | None = None) -> tuple[tuple[Pod, ...], ClusterObjects]:
    """The pods to schedule, in the order of the files, and the cluster with all else that these files hold.

    Workloads are expanded, on the cluster's nodes where they are DaemonSets. A pod that already has a node becomes part
    of the cluster; one that the cluster holds too replaces the cluster's. Raises LoadError.
    """
    cluster = cluster or ClusterObjects()
    loaded = _Load(cluster).run(paths)
    taken = {pod.key for pod in loaded.pods}
    replaced = [
        f"Pod {pod.key}: the one of --pods replaces the cluster's" for pod in cluster.running if pod.key in taken
    ]
    others = {
        kind: _joined(cluster.of_kind(kind), loaded.of_kind(kind)) for kind in {**cluster.others, **loaded.others}
    }
    merged = ClusterObjects(
        nodes=_joined(cluster.nodes, loaded.nodes),
        pods=tuple(pod for pod in cluster.pods if pod.key not in taken) + loaded.running,
        others=others,
        warnings=(*cluster.warnings, *loaded.warnings, *replaced),
        ignored=Counter(cluster.ignored) + Counter(loaded.ignored),
    )
    return loaded.pending, merged


def _joined(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
    names = {item.key for item in new}
    return tuple(item for item in old if item.key not in names) + new


class _Place(msgspec.Struct, frozen=True, gc=False):
    """Names an object in a message. Keeps no part of the body: 100,000 of these live as long as the load."""

    origin: Origin
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.origin} ({self.kind} {name})" if self.name else f"{self.origin} ({self.kind})"


def _place(document: Document, body: Body, *, namespaced: bool) -> _Place:
    meta = optional(body, "metadata")
    namespace = str(meta.get("namespace") or DEFAULT_NAMESPACE) if namespaced else ""
    return _Place(document.origin, document.kind, namespace, str(meta.get("name") or meta.get("generateName") or ""))


class _Slot(msgspec.Struct, gc=False):
    """What one document became. Its pods stay in its place of the order."""

    place: _Place
    workload: Body | None = None
    objects: list[ApiObject] = msgspec.field(default_factory=list)


class _Load:
    """One run over the input; used once and thrown away."""

    def __init__(self, base: ClusterObjects) -> None:
        self._base = base
        self._problems = Problems()
        self._slots: list[_Slot] = []
        self._seen: dict[Key, _Slot] = {}
        self._workloads: dict[Key, _Slot] = {}
        self._ignored: Counter[str] = Counter()
        self._census = Census()
        self._shared_spec: tuple[Any, PodSpec | None] = (None, None)

    def run(self, paths: Iterable[str], *, gpu_share: bool = False) -> ClusterObjects:
        paths = list(paths)
        documents = list(read(paths, self._problems, gpu_share=gpu_share))
        storage_class = default_storage_class(
            self._bodies(documents, "StorageClass"), (c.metadata for c in self._base.of_kind("StorageClass"))
        )
        self._defaults = Defaults(self._priority_classes(documents), self._problems, storage_class)
        for document in documents:
            self._take(document)
        if not documents:
            self._problems.raise_if_any()
            self._problems.error(" ".join(paths), "no Kubernetes objects in there")
        self._expand()
        self._problems.raise_if_any()
        return self._result()

    def _priority_classes(self, documents: list[Document]) -> list[Priority]:
        known = [
            Priority(c.metadata.name, c.value, c.preemption_policy or "PreemptLowerPriority", c.global_default)
            for c in self._base.of_kind("PriorityClass")
        ]
        return known + priority_classes(self._bodies(documents, "PriorityClass"))

    def _bodies(self, documents: list[Document], kind: str) -> Iterator[Body]:
        return filter(None, (self._body(d) for d in documents if d.kind == kind))

    # --- the objects as they were written

    def _take(self, document: Document) -> None:
        group, _, version = document.api_version.rpartition("/")
        workload = document.kind in WORKLOADS and group in _WORKLOAD_GROUPS
        api_version = "apps/v1" if group == "extensions" else document.api_version
        resource = by_kind(api_version, document.kind)
        if resource is None and not workload:
            self._ignored[f"{document.kind} ({document.api_version})"] += 1
            return
        body = self._body(document)
        if body is None:
            return
        namespaced = resource is None or resource.namespaced
        place = _place(document, body, namespaced=namespaced)
        if resource is not None and not workload and version not in (resource.version, *resource.alternatives):
            self._problems.warn(place, f"apiVersion {document.api_version} is not read, skipped")
            return
        if self._shape_is_wrong(place, body):
            return
        self._defaults.apply(body, place, namespaced=namespaced)
        slot = _Slot(place)
        if workload:
            self._take_workload(slot, body)
        if resource is not None:
            self._add(slot, body, resource.type)
        self._slots.append(slot)

    def _body(self, document: Document) -> Body | None:
        try:
            return document.body()
        except (msgspec.DecodeError, RecursionError) as error:
            self._problems.error(f"{document.origin} ({document.kind})", f"not JSON: {error}")
            return None

    def _shape_is_wrong(self, place: _Place, body: Body) -> bool:
        """The defaults reach into metadata, spec and status, so these must be mappings."""
        wrong = [name for name in ("metadata", "spec", "status") if not isinstance(body.get(name), dict | None)]
        for name in wrong:
            self._problems.error(place, f"{name}: expected a mapping")
        return bool(wrong)

    def _take_workload(self, slot: _Slot, body: Body) -> None:
        name = body["metadata"].get("name")
        if not isinstance(name, str) or not name:
            self._problems.error(slot.place, "metadata.name: expected a name")
            return
        earlier = self._workloads.get((slot.place.kind, slot.place.namespace, name))
        if earlier is not None:
            if earlier.workload != body:
                self._problems.warn(slot.place, f"replaces the one of {earlier.place.origin}")
            earlier.workload = None
        self._workloads[slot.place.kind, slot.place.namespace, name] = slot
        slot.workload = body
        for text in assume_counts(body):
            self._problems.warn(slot.place, text)
        self._census.count_owned(body)

    def _add(self, slot: _Slot, body: Body, type_: type[ApiObject], prefix: str = "") -> None:
        typed = self._typed(slot.place, body, type_, prefix)
        if typed is None:
            return
        if isinstance(typed, Pod) and typed.status.phase in _FINISHED:
            self._census.count_pod(typed)
            return
        if self._is_new(slot, typed):
            slot.objects.append(typed)

    def _is_new(self, slot: _Slot, typed: ApiObject) -> bool:
        """A second object of the same name replaces the first, as applying the files one by one would."""
        key = (by_type(type(typed)).listed_as, typed.metadata.namespace, typed.metadata.name)
        earlier = self._seen.get(key)
        if earlier is not None:
            before = next(o for o in earlier.objects if type(o) is type(typed) and o.key == typed.key)
            if before == typed:
                return False
            earlier.objects.remove(before)
            if type(typed).KIND not in WORKLOADS:
                self._problems.warn(slot.place, f"replaces the one of {earlier.place.origin}")
        self._seen[key] = slot
        return True

    def _typed(self, place: _Place, body: Body, type_: type[ApiObject], prefix: str) -> ApiObject | None:
        try:
            typed = convert(body, type_)
        except DecodeError as error:
            self._problems.error(place, prefix + explain(error, body))
            return None
        wrong = [prefix + problem for problem in check(typed)]
        for problem in wrong:
            self._problems.error(place, problem)
        return None if wrong else typed

    # --- what controllers make of them

    def _expand(self) -> None:
        if not self._workloads:
            return
        for slot in self._slots:
            for typed in slot.objects:
                if isinstance(typed, Pod):
                    self._census.count_pod(typed)
                elif type(typed).KIND == "PersistentVolumeClaim":
                    self._census.claims.add((typed.metadata.namespace, typed.metadata.name))
        self._census.reserve_names(self._base.running, self._base.of_kind("PersistentVolumeClaim"))
        expansion = Expansion(self._census, _joined(self._base.nodes, tuple(self._objects_of(Node))))
        for slot in self._slots:
            if slot.workload is not None:
                self._expand_one(expansion, slot, slot.workload)

    def _expand_one(self, expansion: Expansion, slot: _Slot, workload: Body) -> None:
        try:
            for body in expansion.expand(workload):
                resource = by_kind(body["apiVersion"], body["kind"])
                if resource is not None:
                    self._make(slot, body, resource, template_path(workload["kind"]))
        except InvalidWorkloadError as error:
            self._problems.error(slot.place, str(error))

    def _make(self, slot: _Slot, body: Body, resource: Resource, prefix: str) -> None:
        shared, typed_spec = self._shared_spec
        spec = body["spec"]
        if resource is PODS and shared is spec and typed_spec is not None:
            # The replicas of one template share one spec: it was filled in, checked and typed with the first of them.
            pod = convert({**body, "spec": {}, "status": {"phase": "Pending"}}, Pod)
            self._add_made(slot, msgspec.structs.replace(pod, spec=typed_spec))
            return
        self._defaults.apply(body, slot.place, namespaced=resource.namespaced)
        typed = self._typed(slot.place, body, resource.type, prefix if resource is PODS else "")
        if typed is not None:
            self._add_made(slot, typed)
        self._shared_spec = (spec, typed.spec) if isinstance(typed, Pod) else (None, None)

    def _add_made(self, slot: _Slot, typed: ApiObject) -> None:
        if self._is_new(slot, typed):
            slot.objects.append(typed)

    # --- the result

    def _objects_of(self, type_: type[Any]) -> Iterator[Any]:
        return (typed for slot in self._slots for typed in slot.objects if isinstance(typed, type_))

    def _result(self) -> ClusterObjects:
        others: dict[str, list[ApiObject]] = {}
        for slot in self._slots:
            for typed in slot.objects:
                if not isinstance(typed, Pod | Node):
                    others.setdefault(by_type(type(typed)).listed_as, []).append(typed)
        pods = tuple(self._objects_of(Pod))
        missing = self._missing_namespaces(pods)
        if missing:
            others["Namespace"] = [*others.get("Namespace", ()), *missing]
        return ClusterObjects(
            nodes=tuple(self._objects_of(Node)),
            pods=pods,
            others={kind: tuple(objects) for kind, objects in others.items()},
            warnings=self._problems.warnings,
            ignored=dict(self._ignored),
        )

    def _missing_namespaces(self, pods: tuple[Pod, ...]) -> list[Namespace]:
        """Where there are pods there is a namespace, with the one label that every namespace has."""
        known = {space.metadata.name for space in (*self._base.of_kind("Namespace"), *self._objects_of(Namespace))}
        used = dict.fromkeys(pod.metadata.namespace for pod in pods)
        return [
            Namespace(metadata=ObjectMeta(name=name, labels={NAME_LABEL: name}), status=NamespaceStatus(phase="Active"))
            for name in used
            if name not in known
        ]
