"""The required rules of InterPodAffinity: counts per topology value, and the nodes they allow (facts 2.5).

A required affinity needs a pod in the node's domain that matches all of the pod's terms; an anti-affinity term, own
or of a running pod, forbids domains. Used by the plugin alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.framework.status import Status, unresolvable, unschedulable
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_index import PodIndex, TermKind, selecting
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
    """What the snapshot says of one pod's required terms, and what a dry run changed since. `sums` are shared."""

    shape: PodShape
    affinity: Sums
    anti_affinity: Sums
    existing: Sums
    #: pods (times keys) that satisfy the affinity somewhere
    affinity_total: float
    matches_itself: bool
    affinity_changes: Changes = field(default_factory=dict)
    anti_affinity_changes: Changes = field(default_factory=dict)
    existing_changes: Changes = field(default_factory=dict)

    def clone(self) -> FilterState:
        """For a dry run."""
        return FilterState(
            self.shape, self.affinity, self.anti_affinity, self.existing, self.affinity_total, self.matches_itself,
            dict(self.affinity_changes), dict(self.anti_affinity_changes), dict(self.existing_changes),
        )  # fmt: skip

    @property
    def is_first(self) -> bool:
        """The first pod of a group that wants to be near itself needs no other (facts 2.5)."""
        return self.affinity_total == 0 and self.matches_itself


def filter_state(index: PodIndex, snapshot: Snapshot, shape: PodShape) -> FilterState:
    """The counts of one pod, from the snapshot."""
    affinity: Sums = {}
    if shape.required_affinity:
        amounts = index.counted(selecting(shape.required_affinity))
        affinity = {t.topology_key: amounts.by_domain(snapshot, t.topology_key) for t in shape.required_affinity}
    said = index.said_about(TermKind.REQUIRED_ANTI_AFFINITY, shape)
    existing = {key: sums for key, amounts in said.items() if (sums := amounts.by_domain(snapshot, key)).any()}
    return FilterState(
        shape,
        affinity,
        _anti_affinity(index, snapshot, shape.required_anti_affinity),
        existing,
        affinity_total=sum(float(sums.sum()) for sums in affinity.values()),
        matches_itself=matches_all(index, shape.required_affinity, shape),
    )


def _anti_affinity(index: PodIndex, snapshot: Snapshot, terms: tuple[AffinityTerm, ...]) -> Sums:
    """One matching term is enough to forbid a domain, so terms with one key add up."""
    found: Sums = {}
    for term in terms:
        key = term.topology_key
        sums = index.counted(selecting((term,))).by_domain(snapshot, key)
        found[key] = found[key] + sums if key in found else sums
    return found


def matches_all(index: PodIndex, terms: tuple[AffinityTerm, ...], shape: PodShape) -> bool:
    """Whether a pod is meant by all the terms; without terms it is not."""
    return bool(terms) and index.means(selecting(terms), shape.namespace, shape.labels)


# --- all nodes at once ------------------------------------------------------------------------------------------------


def affinity_mask(state: FilterState, nodes: Nodes) -> Mask:
    """`(size,)` bool: each term's key is there, and a matching pod in each domain (or none is needed)."""
    mask = nodes.all
    for key, sums in state.affinity.items():
        codes = nodes.label_codes(key)
        mask &= codes > 0 if state.is_first else (sums > 0).take(codes)
    return mask


def free_mask(forbidden: Sums, nodes: Nodes) -> Mask:
    """`(size,)` bool: in no forbidden domain."""
    mask = nodes.all
    for key, sums in forbidden.items():
        mask &= (sums <= 0).take(nodes.label_codes(key))
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
    shape, labels = state.shape, node.labels
    namespace_labels = index.namespace_labels(shape.namespace)
    for term in other.shape.required_anti_affinity:
        if term.matches(shape.namespace, shape.labels, namespace_labels):
            _add(state.existing_changes, term.topology_key, labels, sign)
    if matches_all(index, shape.required_affinity, other.shape):
        for key in state.affinity:
            state.affinity_total += sign * _add(state.affinity_changes, key, labels, sign)
    for term in shape.required_anti_affinity:
        if matches_all(index, (term,), other.shape):
            _add(state.anti_affinity_changes, term.topology_key, labels, sign)


def _add(changes: Changes, key: str, labels: Mapping[str, str], sign: int) -> bool:
    value = labels.get(key)
    if value is None:
        return False
    changes[key, value] = changes.get((key, value), 0) + sign
    return True
