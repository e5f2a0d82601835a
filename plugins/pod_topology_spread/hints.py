"""When a pod that PodTopologySpread refused is worth another try (facts 1.2). Used by the plugin alone."""

from __future__ import annotations

from collections.abc import Sequence

from kube.api.core import Node, Pod
from plugins.pod_topology_spread.constraints import Constraint

Hard = Sequence[Constraint]


def concerns(pod: Pod, other: Pod | None) -> bool:
    """The pod itself, or an assigned one of its namespace; None is no reason against it."""
    if other is None or other.metadata.uid == pod.metadata.uid:
        return True
    return bool(other.spec.node_name) and other.metadata.namespace == pod.metadata.namespace


def after_pod_change(pod: Pod, hard: Hard, old: Pod | None, new: Pod | None) -> bool:
    """Another number of pods matches some constraint, or the pod tolerates taints that count for one."""
    if not (concerns(pod, old) and concerns(pod, new)):
        return False
    if old is not None and new is not None:
        own = new.metadata.uid == pod.metadata.uid
        if own and old.spec.tolerations != new.spec.tolerations and any(c.honor_taints for c in hard):
            return True
        return any(c.matches(old.metadata.labels) != c.matches(new.metadata.labels) for c in hard)
    there = new if new is not None else old
    return there is not None and any(c.matches(there.metadata.labels) for c in hard)


def after_node_change(hard: Hard, old: Node | None, new: Node | None) -> bool:
    """A node that has all the keys came, went, or changed its values or taints."""
    before, after = _has_keys(old, hard), _has_keys(new, hard)
    if old is None or new is None or before != after:
        return before or after
    moved = any(old.metadata.labels.get(c.topology_key) != new.metadata.labels.get(c.topology_key) for c in hard)
    return after and (moved or old.spec.taints != new.spec.taints)


def _has_keys(node: Node | None, hard: Hard) -> bool:
    return node is not None and all(c.topology_key in node.metadata.labels for c in hard)
