"""The hard constraints: pods per domain, and the nodes where one more pod keeps the skew (facts 2.6).

count(domain of the node) + 1 if the pod matches itself - fewest <= maxSkew, for each constraint. Used by the plugin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from plugins.pod_topology_spread.constraints import Constraint
from plugins.pod_topology_spread.domains import Domains
from scheduler.framework.status import Status, unresolvable, unschedulable
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_index import PodIndex
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Nodes, Snapshot

SKEWED = unschedulable("node(s) didn't match pod topology spread constraints")
MISSING_KEY = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")

#: label code of a domain -> pods more or less than the snapshot has
Changes = dict[int, int]


@dataclass(slots=True)
class Counts:
    """One constraint and the pods of its domains. Shared by all states of a cycle: not changed once made."""

    constraint: Constraint
    domains: Domains
    #: pods by label code; domains that do not count have 0
    pods: Vector
    _lowest: list[tuple[float, int]] | None = None

    def fewest(self, changes: Changes) -> float:
        """The smallest number of pods in a domain; 0 where there are fewer domains than minDomains."""
        codes = self.domains.codes
        if len(codes) < self.constraint.min_domains or not len(codes):
            return 0
        if not changes:
            return float(self.pods.take(codes).min())
        changed = min(float(self.pods[code]) + change for code, change in changes.items())
        return min(changed, self._fewest_but(changes))

    def _fewest_but(self, changes: Changes) -> float:
        """Among the unchanged domains. A dry run changes one node, and so one domain: the two lowest suffice."""
        if len(changes) > 1:
            rest = np.setdiff1d(self.domains.codes, list(changes))
            return float(self.pods.take(rest).min()) if len(rest) else math.inf
        if self._lowest is None:
            counts = self.pods.take(self.domains.codes)
            order = np.argsort(counts)[:2].tolist()
            self._lowest = [(float(counts[i]), int(self.domains.codes[i])) for i in order]
        return next((count for count, code in self._lowest if code not in changes), math.inf)

    def allowed(self) -> Mask:
        """`(label codes,)` bool: domains that can take one more pod."""
        constraint = self.constraint
        mask: Mask = self.pods <= constraint.max_skew - constraint.self_match + self.fewest({})
        mask[0] = False
        return mask


@dataclass(slots=True)
class FilterState:
    """All hard constraints of a pod, and what a dry run changed."""

    counts: tuple[Counts, ...]
    changes: list[Changes] = field(default_factory=list)

    def clone(self) -> FilterState:
        """For a dry run."""
        return FilterState(self.counts, [dict(changes) for changes in self.changes])


def filter_state(
    index: PodIndex, snapshot: Snapshot, constraints: Sequence[Constraint], domains: Sequence[Domains]
) -> FilterState:
    """The counts of a pod's hard constraints, from the snapshot."""
    counts = tuple(
        Counts(c, d, index.counted(c.pods).by_domain(snapshot, c.topology_key, d.included).values)
        for c, d in zip(constraints, domains, strict=True)
    )
    return FilterState(counts, [{} for _ in counts])


def allowed_mask(state: FilterState, nodes: Nodes) -> Mask:
    """`(size,)` bool: nodes that every constraint allows."""
    mask = nodes.all
    for counts in state.counts:
        mask &= counts.allowed().take(nodes.label_codes(counts.constraint.topology_key))
    return mask


def first_refusals(state: FilterState, nodes: Nodes) -> tuple[Mask, Mask]:
    """Refused nodes whose first broken constraint misses its key, and those where it is the skew."""
    missing, skewed = nodes.none, nodes.none
    for counts in state.counts:
        codes = nodes.label_codes(counts.constraint.topology_key)
        open_ = ~(missing | skewed)
        missing |= open_ & (codes == 0)
        skewed |= open_ & (codes > 0) & ~counts.allowed().take(codes)
    return missing, skewed


def judge_node(state: FilterState, snapshot: Snapshot, node: NodeInfo) -> Status | None:
    """None: every constraint allows the node; otherwise the first that does not."""
    for counts, changes in zip(state.counts, state.changes, strict=True):
        constraint = counts.constraint
        value = node.labels.get(constraint.topology_key)
        if value is None:
            return MISSING_KEY
        code = _code(snapshot, counts, value)
        pods = float(counts.pods[code]) + changes.get(code, 0)
        if pods + constraint.self_match - counts.fewest(changes) > constraint.max_skew:
            return SKEWED
    return None


def change(state: FilterState, snapshot: Snapshot, other: PodInfo, node: NodeInfo, sign: int) -> None:
    """A dry run put another pod of the same namespace on a node (+1) or took it off (-1).

    As upstream, a terminating pod counts here although the snapshot's counts leave it out.
    """
    if any(counts.constraint.topology_key not in node.labels for counts in state.counts):
        return
    for counts, changes in zip(state.counts, state.changes, strict=True):
        included = counts.domains.included
        if counts.constraint.matches(other.shape.labels) and (included is None or included[node.row]):
            code = _code(snapshot, counts, node.labels[counts.constraint.topology_key])
            changes[code] = changes.get(code, 0) + sign


def _code(snapshot: Snapshot, counts: Counts, value: str) -> int:
    return snapshot.label(counts.constraint.topology_key).values.code_of[value]
