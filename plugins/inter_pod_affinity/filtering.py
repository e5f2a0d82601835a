"""The required rules of InterPodAffinity: counts per topology value, and the nodes they allow (facts 2.5).

A required affinity needs a pod in the node's domain that matches all of the pod's terms; an anti-affinity term, own
or of a running pod, forbids domains. Used by the plugin alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from plugins.inter_pod_affinity.terms import ShapeTerms
from scheduler.framework.status import Status, unresolvable, unschedulable
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_index import PodIndex, TermKind
from scheduler.snapshot.pod_info import AffinityTerm, PodInfo, PodShape
from scheduler.snapshot.snapshot import Nodes, Snapshot

AFFINITY = unresolvable("node(s) didn't match pod affinity rules")
ANTI_AFFINITY = unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI_AFFINITY = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

#: (topology key, value) -> pods more or less than the snapshot has
Changes = dict[tuple[str, str], int]
#: topology key -> pods by label code
Sums = dict[str, Vector]


@dataclass(slots=True)
class FilterState:
    """What the snapshot says of one pod's required terms, and what a dry run changed since. Sums are shared."""

    index: PodIndex
    shape: PodShape
    terms: ShapeTerms
    affinity: Sums
    anti_affinity: Sums
    existing: Sums
    #: pods (times keys) that satisfy the affinity somewhere
    affinity_total: float
    affinity_changes: Changes = field(default_factory=dict)
    anti_affinity_changes: Changes = field(default_factory=dict)
    existing_changes: Changes = field(default_factory=dict)

    def clone(self) -> FilterState:
        """For a dry run."""
        return replace(
            self,
            affinity_changes=dict(self.affinity_changes),
            anti_affinity_changes=dict(self.anti_affinity_changes),
            existing_changes=dict(self.existing_changes),
        )

    @property
    def is_first(self) -> bool:
        """The first pod of a group that wants to be near itself needs no other (facts 2.5)."""
        if self.affinity_total or self.terms.affinity is None:
            return False
        return self.index.means(self.terms.affinity, self.shape.namespace, self.shape.labels)


def filter_state(index: PodIndex, snapshot: Snapshot, shape: PodShape, terms: ShapeTerms) -> FilterState | None:
    """The counts of one pod, from the snapshot; None where nothing is required of its place."""
    existing: Sums = {}
    for key, amounts in index.said_about(shape).amounts[TermKind.REQUIRED_ANTI_AFFINITY].items():
        sums = amounts.by_domain(snapshot, key)
        if sums.total:
            existing[key] = sums.values
    if terms.affinity is None and not terms.anti_affinity and not existing:
        return None
    affinity: Sums = {}
    total = 0.0
    if terms.affinity is not None:
        amounts = index.counted(terms.affinity)
        for key in terms.affinity_keys:
            sums = amounts.by_domain(snapshot, key)
            affinity[key] = sums.values
            total += sums.total
    anti_affinity = _anti_affinity(index, snapshot, terms)
    return FilterState(index, shape, terms, affinity, anti_affinity, existing, total)


def _anti_affinity(index: PodIndex, snapshot: Snapshot, terms: ShapeTerms) -> Sums:
    """One matching term is enough to forbid a domain, so terms with one key add up."""
    found: Sums = {}
    for key, selector in terms.anti_affinity:
        sums = index.counted(selector).by_domain(snapshot, key).values
        found[key] = found[key] + sums if key in found else sums
    return found


# --- all nodes at once ------------------------------------------------------------------------------------------------


def allowed_mask(state: FilterState, nodes: Nodes) -> Mask:
    """`(size,)` bool: near enough, and in no forbidden domain; one look-up per topology key."""
    tables = _affinity_tables(state)
    for forbidden in (state.anti_affinity, state.existing):
        for key, sums in forbidden.items():
            free = sums <= 0
            tables[key] = tables[key] & free if key in tables else free
    return _look_up(tables, nodes)


def affinity_mask(state: FilterState, nodes: Nodes) -> Mask:
    """`(size,)` bool: each term's key is there, and a matching pod in each domain (or none is needed)."""
    return _look_up(_affinity_tables(state), nodes)


def anti_affinity_mask(state: FilterState, nodes: Nodes) -> Mask:
    """`(size,)` bool: no pod that the pod's own terms forbid in the domains."""
    return _look_up({key: sums <= 0 for key, sums in state.anti_affinity.items()}, nodes)


def _affinity_tables(state: FilterState) -> dict[str, Mask]:
    """By key and label code. Entry 0, no such label, is False."""
    if not state.is_first:
        return {key: sums > 0 for key, sums in state.affinity.items()}
    return {key: np.arange(len(sums)) > 0 for key, sums in state.affinity.items()}


def _look_up(tables: dict[str, Mask], nodes: Nodes) -> Mask:
    mask = nodes.all
    for key, table in tables.items():
        mask &= table.take(nodes.label_codes(key))
    return mask


# --- one node, in a dry run -------------------------------------------------------------------------------------------


def judge_node(state: FilterState, snapshot: Snapshot, node: NodeInfo) -> Status | None:
    """None: the required rules allow the node; otherwise the first rule that does not."""
    labels = node.labels
    if state.affinity and not _near(state, snapshot, labels):
        return AFFINITY
    if _forbidden(state.anti_affinity, state.anti_affinity_changes, snapshot, labels):
        return ANTI_AFFINITY
    if _forbidden(state.existing, state.existing_changes, snapshot, labels):
        return EXISTING_ANTI_AFFINITY
    return None


def _near(state: FilterState, snapshot: Snapshot, labels: Mapping[str, str]) -> bool:
    if any(key not in labels for key in state.affinity):
        return False
    if state.is_first:
        return True
    return all(
        _count(sums, snapshot, key, labels[key]) + state.affinity_changes.get((key, labels[key]), 0) > 0
        for key, sums in state.affinity.items()
    )


def _forbidden(sums: Sums, changes: Changes, snapshot: Snapshot, labels: Mapping[str, str]) -> bool:
    keys = sums.keys() | {key for key, _ in changes} if changes else sums.keys()
    for key in keys:
        value = labels.get(key)
        if value is None:
            continue
        counted = _count(sums[key], snapshot, key, value) if key in sums else 0
        if counted + changes.get((key, value), 0) > 0:
            return True
    return False


def _count(sums: Vector, snapshot: Snapshot, key: str, value: str) -> float:
    code = snapshot.label(key).values.code_of.get(value, 0)
    return float(sums[code]) if code < len(sums) else 0.0


def change(state: FilterState, index: PodIndex, other: PodInfo, node: NodeInfo, sign: int) -> None:
    """A dry run put another pod on a node (+1) or took it off (-1)."""
    labels = node.labels
    for term in other.shape.required_anti_affinity:
        if wants_away(index, term, state.shape):
            _add(state.existing_changes, term.topology_key, labels, sign)
    namespace, pod_labels = other.shape.namespace, other.shape.labels
    if state.terms.affinity is not None and index.means(state.terms.affinity, namespace, pod_labels):
        for key in state.affinity:
            state.affinity_total += sign * _add(state.affinity_changes, key, labels, sign)
    for key, selector in state.terms.anti_affinity:
        if index.means(selector, namespace, pod_labels):
            _add(state.anti_affinity_changes, key, labels, sign)


def is_concerned_by(state: FilterState, index: PodIndex, other: PodShape) -> bool:
    """Whether `change` would change anything for a pod of this shape."""
    terms = state.terms
    return (
        any(wants_away(index, term, state.shape) for term in other.required_anti_affinity)
        or (terms.affinity is not None and index.means(terms.affinity, other.namespace, other.labels))
        or any(index.means(selector, other.namespace, other.labels) for _, selector in terms.anti_affinity)
    )


def wants_away(index: PodIndex, term: AffinityTerm, shape: PodShape) -> bool:
    """Whether an anti-affinity term of another pod means this one."""
    return term.matches(shape.namespace, shape.labels, index.namespace_labels(shape.namespace))


def _add(changes: Changes, key: str, labels: Mapping[str, str], sign: int) -> bool:
    value = labels.get(key)
    if value is None:
        return False
    changes[key, value] = changes.get((key, value), 0) + sign
    return True
