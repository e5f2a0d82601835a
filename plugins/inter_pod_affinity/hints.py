"""When a pod that InterPodAffinity refused is worth another try (facts 1.2). Used by the plugin alone."""

from __future__ import annotations

from collections.abc import Mapping

from kube.api.core import Node, Pod
from plugins.inter_pod_affinity.filtering import wants_away
from plugins.inter_pod_affinity.terms import ShapeTerms
from scheduler.snapshot.pod_index import PodIndex, PodSelector
from scheduler.snapshot.pod_info import PodShape


def after_pod_change(
    index: PodIndex, shape: PodShape, terms: ShapeTerms, old: PodShape | None, new: PodShape | None
) -> bool:
    """An assigned pod came, went, or got other labels."""
    if terms.affinity is not None and _means(index, terms.affinity, new) and not _means(index, terms.affinity, old):
        return True
    for _, selector in terms.anti_affinity:
        if _means(index, selector, old) and not _means(index, selector, new):
            return True
    return new is None and old is not None and any(wants_away(index, t, shape) for t in old.required_anti_affinity)


def _means(index: PodIndex, selector: PodSelector, shape: PodShape | None) -> bool:
    return shape is not None and index.means(selector, shape.namespace, shape.labels)


def after_node_change(terms: ShapeTerms, old: Node | None, new: Node) -> bool:
    """A node came, or got other labels."""
    before: Mapping[str, str] = old.metadata.labels if old is not None else {}
    after = new.metadata.labels
    if any(key in after and before.get(key) != after[key] for key in terms.affinity_keys):
        return True
    if old is None:
        # A pod without terms was refused because of what running pods want, which a new node may be free of.
        return bool(terms.anti_affinity) or not terms.affinity_keys
    return any(key in before and before[key] != after.get(key) for key, _ in terms.anti_affinity)


def are_assigned(*pods: Pod | None) -> bool:
    """Whether the pods of an event run somewhere."""
    return all(pod is None or bool(pod.spec.node_name) for pod in pods)
