"""From an operation to the objects it stands for, as JSON. Used by both targets; knows neither."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.workload import CreateNodes, CreateObjects, CreatePods, Operation, Template, Workload
from kube.api.resources import Resource, by_kind


@dataclass(frozen=True, slots=True)
class Made:
    """One object to be created."""

    resource: Resource
    namespace: str
    name: str
    body: bytes

    @property
    def collection(self) -> str:
        """Where it is POSTed."""
        return self.resource.path(self.namespace)

    @property
    def path(self) -> str:
        """Where it is found."""
        return self.resource.path(self.namespace, self.name)


@dataclass(slots=True)
class Names:
    """What is different between two runs of the same workload."""

    scheduler: str
    #: put before the names of measured pods
    run: str = ""


class Maker:
    """Makes the objects of one workload."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._nodes: list[str] = []
        self._templates: dict[str, tuple[Resource, Template]] = {}
        self._operations: list[Operation] = [*workload.set_up, *workload.measure.steps]

    def make(self, operation: Operation, names: Names) -> Iterator[Made]:
        """The objects of an operation, companions before their pod or node."""
        if isinstance(operation, CreateNodes):
            yield from self._make_nodes(operation)
        elif isinstance(operation, CreateObjects):
            for i in range(operation.count):
                name = f"{operation.name}-{i}" if operation.count > 1 else operation.name
                yield from self._one((operation.template,), name, i, "default")
        elif isinstance(operation, CreatePods):
            yield from self._make_pods(operation, names)

    def one(self, template: str, name: str, index: int, scheduler: str) -> Made:
        """A single object, as churn creates it; a pod is for that scheduler."""
        return next(self._one((template,), name, index, "default", scheduler=scheduler))

    def pod_prefix(self, operation: CreatePods, names: Names) -> str:
        """What the names of its pods begin with."""
        return f"{names.run}{operation.name or f'pods{self._operations.index(operation)}'}-"

    def _make_nodes(self, operation: CreateNodes) -> Iterator[Made]:
        for i in range(operation.count):
            name = f"{operation.name}-{i}"
            self._nodes.append(name)
            templates = (operation.template, *operation.companions)
            yield from self._one(templates, name, i, "default", zone=i % operation.zones)

    def _make_pods(self, operation: CreatePods, names: Names) -> Iterator[Made]:
        prefix = self.pod_prefix(operation, names)
        spec = {"schedulerName": names.scheduler}
        nodes: Sequence[str] = [""]
        if operation.placed:
            spec["nodeName"] = "$node"
            nodes = self._nodes
        template = self._workload.templates[operation.template].changed(**spec).named(namespaced=True)
        resource = resource_of(template.api_version, template.kind)
        for i in range(operation.count):
            name = f"{prefix}{i}"
            namespace = operation.namespace
            if operation.namespaces:
                namespace = f"{namespace}-{i % operation.namespaces}"
            yield from self._one(operation.companions, name, i, namespace)
            values = {"name": name, "namespace": namespace, "index": str(i), "zone": "0", "node": nodes[i % len(nodes)]}
            yield Made(resource, namespace, name, template.render(values))

    def _one(
        self, templates: Sequence[str], name: str, index: int, namespace: str, *, zone: int = 0, scheduler: str = ""
    ) -> Iterator[Made]:
        values = {"name": name, "namespace": namespace, "index": str(index), "zone": str(zone)}
        values["scheduler"] = scheduler
        for key in templates:
            resource, template = self._named(key)
            own = str(template.manifest["metadata"]["name"]).replace("$name", name)
            yield Made(resource, namespace if resource.namespaced else "", own, template.render(values))

    def _named(self, key: str) -> tuple[Resource, Template]:
        known = self._templates.get(key)
        if known is None:
            plain = self._workload.templates[key]
            resource = resource_of(plain.api_version, plain.kind)
            if plain.kind == "Pod":
                plain = plain.changed(schedulerName="$scheduler")
            known = self._templates[key] = resource, plain.named(namespaced=resource.namespaced)
        return known


def resource_of(api_version: str, kind: str) -> Resource:
    """Where objects of a manifest's kind live."""
    resource = by_kind(api_version, kind)
    if resource is None:
        raise ValueError(f"no resource is known for {api_version} {kind}")
    return resource
