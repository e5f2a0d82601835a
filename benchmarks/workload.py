"""Workloads: what is created, what goes on meanwhile, and what is measured. Read from `workloads/*.yaml`.

A workload is a list of operations, in sizes; `$nodes` and the like stand for a number of the size. Anybody may call
`load`; nothing here talks to a server or an engine. Bad files are one ValueError that names file, workload and field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import yaml

FOLDER = Path(__file__).with_name("workloads")
SHARED = "templates.yaml"
Json = dict[str, Any]


class Template:
    """A manifest with `$name`, `$index`, `$zone` and `$namespace` in it."""

    def __init__(self, manifest: Json) -> None:
        self.manifest = manifest
        self.kind = str(manifest["kind"])
        self.api_version = str(manifest["apiVersion"])
        self._pieces = re.split(r"\$(\w+)", msgspec.json.encode(manifest).decode())

    def changed(self, **spec: Any) -> Template:
        """The same with other fields in its spec."""
        return Template({**self.manifest, "spec": {**self.manifest["spec"], **spec}})

    def named(self, *, namespaced: bool) -> Template:
        """The same with a name, and a namespace where objects of its kind have one."""
        place = {"namespace": "$namespace"} if namespaced else {}
        metadata = {"name": "$name", **self.manifest.get("metadata", {}), **place}
        return Template({**self.manifest, "metadata": metadata})

    def render(self, values: Mapping[str, str]) -> bytes:
        """The object's JSON."""
        pieces = self._pieces
        parts = [values[piece] if i % 2 else piece for i, piece in enumerate(pieces)]
        return "".join(parts).encode()


class Operation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step."""


class CreateNodes(Operation, frozen=True):
    """Nodes `name`-0, -1, … in `zones` zones by turns; `with`: objects of the same name beside each."""

    count: int
    template: str = "node"
    name: str = "node"
    zones: int = 1
    companions: tuple[str, ...] = msgspec.field(default=(), name="with")


class CreateObjects(Operation, frozen=True):
    """`count` other objects `name`-0, -1, …; a single one is just `name`."""

    template: str
    count: int
    name: str


class CreatePods(Operation, frozen=True):
    """Pods. `placed`: on the nodes by turns from the start. `pending`: nobody will bind them. `rate`: a second."""

    count: int
    template: str = "pod"
    name: str = ""
    namespace: str = "default"
    #: spread over `namespace`-0, -1, …
    namespaces: int = 0
    placed: bool = False
    pending: bool = False
    rate: float = 0.0
    companions: tuple[str, ...] = msgspec.field(default=(), name="with")


class Churn(Operation, frozen=True):
    """While measuring, every so many seconds one object of each template: `create` them, or `recreate` the same one."""

    templates: tuple[str, ...]
    every: float
    mode: str = "create"


class DeletePods(Operation, frozen=True):
    """While measuring, delete the pods created under `name`, `rate` a second."""

    name: str
    rate: float


class Barrier(Operation, frozen=True):
    """Wait until all pods that can be bound are."""


class Sleep(Operation, frozen=True):
    """Wait some seconds."""

    seconds: float


class Measure(msgspec.Struct, frozen=True):
    """From the creation of these pods until all are bound."""

    steps: tuple[Operation, ...]

    @property
    def pods(self) -> CreatePods:
        """The pods that are measured."""
        return next(step for step in self.steps if isinstance(step, CreatePods))


Step = Operation | Measure

_OPERATIONS: dict[str, type[Operation]] = {
    "createNodes": CreateNodes,
    "createObjects": CreateObjects,
    "createPods": CreatePods,
    "churn": Churn,
    "deletePods": DeletePods,
    "barrier": Barrier,
    "sleep": Sleep,
}


class Workload(msgspec.Struct, frozen=True, dict=True):
    """One workload at one size."""

    name: str
    size: str
    labels: tuple[str, ...]
    about: str
    steps: tuple[Step, ...]
    templates: Mapping[str, Template]
    #: the Kubernetes version whose API it needs
    needs: tuple[int, int] = (1, 20)
    #: measuring it uses up what was set up
    spends: bool = False

    @property
    def title(self) -> str:
        """Name and size, as on the command line."""
        return f"{self.name}/{self.size}"

    @cached_property
    def measure(self) -> Measure:
        """Its one measurement."""
        return next(step for step in self.steps if isinstance(step, Measure))

    @property
    def set_up(self) -> Iterator[Operation]:
        """What comes before the measurement."""
        for step in self.steps:
            if isinstance(step, Measure):
                return
            yield step

    @property
    def nodes(self) -> int:
        """How many nodes it creates."""
        return sum(step.count for step in self.set_up if isinstance(step, CreateNodes))


def load(folder: Path = FOLDER, sizes: Mapping[str, Json] | None = None) -> list[Workload]:
    """All workloads of a folder, in the order of files and lines. `sizes`: only these, at one size of the caller's."""
    shared = _read(folder / SHARED)
    workloads: list[Workload] = []
    for path in sorted(folder.glob("*.yaml")):
        if path.name != SHARED:
            document = _read(path)
            manifests = {**shared, **document.get("templates", {})}
            templates = {name: Template(manifest) for name, manifest in manifests.items()}
            for name, body in document["workloads"].items():
                if sizes is None:
                    workloads += _sizes(f"{path.name}: {name}", name, body, templates)
                elif name in sizes:
                    own = {**body, "sizes": {"own": {"labels": [], **sizes[name]}}}
                    workloads += _sizes(f"{path.name}: {name}", name, own, templates)
    return workloads


def select(workloads: list[Workload], label: str = "", pattern: str = "") -> list[Workload]:
    """Those with the label whose title matches the regular expression."""
    return [w for w in workloads if (not label or label in w.labels) and re.search(pattern, w.title)]


def _read(path: Path) -> Json:
    document: Json = yaml.safe_load(path.read_text())
    return document


def _sizes(where: str, name: str, body: Json, templates: Mapping[str, Template]) -> Iterator[Workload]:
    needs = tuple(int(part) for part in str(body.get("needs", "1.20")).split("."))
    for size, given in body["sizes"].items():
        numbers = {key: value for key, value in given.items() if key != "labels"}
        steps = tuple(_step(f"{where}/{size}", step, numbers, templates) for step in body["steps"])
        if sum(isinstance(step, Measure) for step in steps) != 1:
            raise ValueError(f"{where}: expected one `measure`")
        yield Workload(
            name=name,
            size=size,
            labels=tuple(given["labels"]),
            about=body["about"],
            steps=steps,
            templates=templates,
            needs=(needs[0], needs[1]),
            spends=body.get("spends", False),
        )


def _step(where: str, step: Json, numbers: Mapping[str, Any], templates: Mapping[str, Template]) -> Step:
    [(name, body)] = step.items()
    if name == "measure":
        return Measure(tuple(_operation(where, inner, numbers, templates) for inner in body))
    return _operation(where, step, numbers, templates)


def _operation(where: str, step: Json, numbers: Mapping[str, Any], templates: Mapping[str, Template]) -> Operation:
    [(name, body)] = step.items()
    kind = _OPERATIONS.get(name)
    if kind is None:
        raise ValueError(f"{where}: no operation {name!r}; there are {', '.join(_OPERATIONS)} and measure")
    try:
        operation = msgspec.convert({key: _filled(value, numbers) for key, value in (body or {}).items()}, kind)
    except (msgspec.ValidationError, KeyError) as error:
        raise ValueError(f"{where}: {name}: {error}") from None
    wanted = [getattr(operation, "template", ""), *getattr(operation, "templates", ())]
    for template in (*wanted, *getattr(operation, "companions", ())):
        if template and template not in templates:
            raise ValueError(f"{where}: {name}: no template {template!r}")
    return operation


def _filled(value: Any, numbers: Mapping[str, Any]) -> Any:
    return numbers[value[1:]] if isinstance(value, str) and value.startswith("$") else value
