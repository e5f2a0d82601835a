"""Nodes drained, removed and added, on paper: a cluster in, a changed cluster out. Pure functions on loaded objects.

A pod that loses its node becomes pending again under its own name, as if its controller had made it anew. Pods of a
DaemonSet and static pods belong to their node: they go with it, and a new node has copies of its template's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kube.api.core import Node, Pod, PodStatus, Taint
from simulator.load import ClusterObjects, LoadError, load

HOSTNAME = "kubernetes.io/hostname"
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_MIRROR = "kubernetes.io/config.mirror"
#: taints of a node's condition: a new node does not have its template's
_CONDITIONS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")

change = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class Template:
    """A node to make others like it, with what belongs to each such node."""

    node: Node
    #: DaemonSet and static pods
    pods: tuple[Pod, ...] = ()
    csi_node: Any | None = None

    @property
    def name(self) -> str:
        """The template's own name."""
        return self.node.metadata.name


def drain(objects: ClusterObjects, names: Sequence[str]) -> ClusterObjects:
    """Cordon nodes and make their pods pending. Raises LoadError for a node that is not there."""
    _check(objects, names)
    nodes = tuple(_cordoned(node) if node.metadata.name in names else node for node in objects.nodes)
    return replace(objects, nodes=nodes, pods=_freed(objects.pods, names, keep=True))


def remove(objects: ClusterObjects, names: Sequence[str]) -> ClusterObjects:
    """Take nodes away and make their pods pending. Raises LoadError for a node that is not there."""
    _check(objects, names)
    nodes = tuple(node for node in objects.nodes if node.metadata.name not in names)
    return replace(objects, nodes=nodes, pods=_freed(objects.pods, names, keep=False))


def _check(objects: ClusterObjects, names: Sequence[str]) -> None:
    known = {node.metadata.name for node in objects.nodes}
    missing = [name for name in names if name not in known]
    if missing:
        raise LoadError(tuple(f"there is no node {name}" for name in missing))


def _cordoned(node: Node) -> Node:
    taints = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE.key)
    return change(node, spec=change(node.spec, unschedulable=True, taints=(*taints, UNSCHEDULABLE)))


def _freed(pods: Iterable[Pod], names: Sequence[str], *, keep: bool) -> tuple[Pod, ...]:
    """`keep`: the nodes stay, and with them what belongs to them."""
    left = []
    for pod in pods:
        if pod.spec.node_name not in names or not pod.spec.node_name:
            left.append(pod)
        elif not belongs_to_node(pod):
            left.append(pending(pod))
        elif keep:
            left.append(pod)
    return tuple(left)


def belongs_to_node(pod: Pod) -> bool:
    """A DaemonSet's pod, or a static one."""
    meta = pod.metadata
    return _MIRROR in meta.annotations or any(owner.kind == "DaemonSet" for owner in meta.owner_references)


def pending(pod: Pod) -> Pod:
    """The same pod, not scheduled yet."""
    return change(pod, spec=change(pod.spec, node_name=""), status=PodStatus(phase="Pending"))


# --- new nodes --------------------------------------------------------------------------------------------------------


def find_template(objects: ClusterObjects, text: str) -> Template:
    """A node of the cluster by its name, or the one node of a file. Raises LoadError."""
    node = next((node for node in objects.nodes if node.metadata.name == text), None)
    if node is None:
        loaded = _from_file(text)
        return Template(loaded)
    mine = tuple(pod for pod in objects.pods if pod.spec.node_name == text and belongs_to_node(pod))
    csi = next((each for each in objects.of_kind("CSINode") if each.metadata.name == text), None)
    return Template(node, mine, csi)


def _from_file(path: str) -> Node:
    try:
        nodes = load([path]).nodes
    except LoadError as problem:
        raise LoadError((f"{path}: neither a node of the cluster nor a file with one ({problem})",)) from problem
    if len(nodes) != 1:
        raise LoadError((f"{path}: expected one Node, found {len(nodes)}",))
    return nodes[0]


def add(objects: ClusterObjects, template: Template, count: int) -> ClusterObjects:
    """`count` more nodes like the template, with pods of DaemonSets of their own."""
    names = _new_names(objects, template.name, count)
    others = dict(objects.others)
    if template.csi_node is not None:
        csi = [change(template.csi_node, metadata=_meta(template.csi_node, name)) for name in names]
        others["CSINode"] = (*others.get("CSINode", ()), *csi)
    return replace(
        objects,
        nodes=(*objects.nodes, *(_node_like(template.node, name) for name in names)),
        pods=(*objects.pods, *(_pod_on(pod, name) for name in names for pod in template.pods)),
        others=others,
    )


def _new_names(objects: ClusterObjects, base: str, count: int) -> list[str]:
    known = {node.metadata.name for node in objects.nodes}
    names: list[str] = []
    number = 0
    while len(names) < count:
        number += 1
        if f"{base}-new-{number}" not in known:
            names.append(f"{base}-new-{number}")
    return names


def _node_like(node: Node, name: str) -> Node:
    labels = {**node.metadata.labels, HOSTNAME: name}
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_CONDITIONS))
    return change(
        node,
        metadata=change(_meta(node, name), labels=labels),
        spec=change(node.spec, unschedulable=False, taints=taints),
    )


def _meta(obj: Any, name: str) -> Any:
    return change(obj.metadata, name=name, uid=f"{obj.metadata.uid or obj.metadata.name}/{name}")


def _pod_on(pod: Pod, node: str) -> Pod:
    return change(pod, metadata=_meta(pod, f"{pod.metadata.name}-{node}"), spec=change(pod.spec, node_name=node))


def parse_additions(texts: Iterable[str]) -> list[tuple[str, int]]:
    """`TEMPLATE=N`, as given; a bare TEMPLATE is one node. Raises LoadError."""
    found = []
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not equals:
            name, number = text, "1"
        if not name or not number.isdecimal() or int(number) < 1:
            raise LoadError((f"--add-nodes {text}: expected TEMPLATE=N with N at least 1",))
        found.append((name, int(number)))
    return found
