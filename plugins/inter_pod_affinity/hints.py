"""When a pod that InterPodAffinity refused is worth another try (facts 1.2). Used by the plugin alone."""

from __future__ import annotations

from collections.abc import Mapping

from kube.api.core import Node, Pod
from plugins.inter_pod_affinity.filtering import matches_all
from scheduler.framework.cluster_event import QueueingHint
from scheduler.snapshot.pod_index import PodIndex
from scheduler.snapshot.pod_info import PodShape


def after_pod_change(index: PodIndex, shape: PodShape, old: PodShape | None, new: PodShape | None) -> QueueingHint:
    """An assigned pod came, went, or got other labels."""
    affinity = shape.required_affinity
    if new is not None:
        if matches_all(index, affinity, new) and not (old is not None and matches_all(index, affinity, old)):
            return QueueingHint.QUEUE
        if old is None:
            return QueueingHint.SKIP
    assert old is not None, "an event has an object"
    for term in shape.required_anti_affinity:
        if matches_all(index, (term,), old) and not (new is not None and matches_all(index, (term,), new)):
            return QueueingHint.QUEUE
    if new is None and _keeps_away(index, old, shape):
        return QueueingHint.QUEUE
    return QueueingHint.SKIP


def _keeps_away(index: PodIndex, owner: PodShape, shape: PodShape) -> bool:
    """Whether the owner's anti-affinity means the pod."""
    namespace_labels = index.namespace_labels(shape.namespace)
    return any(t.matches(shape.namespace, shape.labels, namespace_labels) for t in owner.required_anti_affinity)


def after_node_change(shape: PodShape, old: Node | None, new: Node) -> QueueingHint:
    """A node came, or got other labels."""
    before: Mapping[str, str] = old.metadata.labels if old is not None else {}
    after = new.metadata.labels
    for term in shape.required_affinity:
        key = term.topology_key
        if key in after and before.get(key) != after[key]:
            return QueueingHint.QUEUE
    for term in shape.required_anti_affinity:
        key = term.topology_key
        if old is None or (key in before and before[key] != after.get(key)):
            return QueueingHint.QUEUE
    # Refused because of what running pods want: only another node can change that here.
    if old is None and not shape.required_affinity and not shape.required_anti_affinity:
        return QueueingHint.QUEUE
    return QueueingHint.SKIP


def are_assigned(*pods: Pod | None) -> bool:
    """Whether the pods of an event run somewhere."""
    return all(pod is None or bool(pod.spec.node_name) for pod in pods)
