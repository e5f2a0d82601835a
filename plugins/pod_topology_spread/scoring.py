"""The soft constraints: the fewer matching pods in a node's domains, the better (facts 2.6). Used by the plugin.

Each constraint weighs ln(number of domains + 2), so that spreading over zones and over hosts can be added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from plugins.pod_topology_spread.constraints import HOSTNAME, Constraint, Constraints
from plugins.pod_topology_spread.domains import Domains, Group
from scheduler.framework.plugin import MAX_NODE_SCORE
from scheduler.snapshot.columns import Codes, Mask, Vector
from scheduler.snapshot.pod_index import PodIndex
from scheduler.snapshot.snapshot import Nodes, Snapshot
from scheduler.snapshot.topology import RowAmounts

#: feasible nodes that are looked at before all are
SAMPLE = 128


@dataclass(frozen=True, slots=True)
class Weighed:
    """A constraint, its weight, and the pods it counts: by domain, or by node where each host is one."""

    constraint: Constraint
    weight: float
    pods: Vector | RowAmounts
    #: no node lacks the key
    everywhere: bool

    def score(self, nodes: Nodes) -> Vector:
        """`(size,)` count·weight + maxSkew-1; 0 where the key is missing."""
        key = self.constraint.topology_key
        if not isinstance(self.pods, RowAmounts):
            return self.table(self.pods).take(nodes.label_codes(key))
        scores = self.pods.by_row(nodes) * self.weight
        scores += self.constraint.max_skew - 1
        return scores if self.everywhere else scores * (nodes.label_codes(key) > 0)

    def table(self, pods: Vector) -> Vector:
        """The same by label code."""
        table = pods * self.weight + float(self.constraint.max_skew - 1)
        table[0] = 0
        return table


@dataclass(frozen=True, slots=True)
class ScoreState:
    """What PreScore found out about the feasible nodes."""

    weighed: tuple[Weighed, ...]
    #: `(size,)` feasible nodes that lack a key and so score 0; None: there are none
    ignored: Mask | None


def score_state(index: PodIndex, nodes: Nodes, constraints: Constraints, group: Group) -> ScoreState:
    """Weights and counts of the soft constraints, for these feasible nodes."""
    missing = None if group.keyed is None else ~nodes.gather(group.keyed)
    ignored = missing if constraints.require_all_keys and missing is not None and missing.any() else None
    weighed = (
        Weighed(c, math.log(_size(nodes, c, d, ignored) + 2), _pods(index, nodes.snapshot, c, d), missing is None)
        for c, d in zip(constraints.soft, group.domains, strict=True)
    )
    return ScoreState(tuple(weighed), ignored)


def _pods(index: PodIndex, snapshot: Snapshot, constraint: Constraint, domains: Domains) -> Vector | RowAmounts:
    """On a host all its matching pods count; in a wider domain only those on nodes that the policies include."""
    amounts = index.counted(constraint.pods)
    if constraint.topology_key == HOSTNAME:
        return amounts
    return amounts.by_domain(snapshot, constraint.topology_key, domains.included).values


def _size(nodes: Nodes, constraint: Constraint, domains: Domains, ignored: Mask | None) -> int:
    """Distinct values among the feasible nodes that are not ignored; a missing key is a value here (facts 2.6)."""
    if constraint.topology_key == HOSTNAME:
        return nodes.size - (0 if ignored is None else int(np.count_nonzero(ignored)))
    if nodes.rows is None:
        return domains.distinct
    codes = nodes.label_codes(constraint.topology_key)
    if ignored is not None:
        return _distinct(codes[~ignored])
    # Where some of the feasible nodes show all values that there are, the others cannot show more.
    return domains.distinct if _distinct(codes[:SAMPLE]) == domains.distinct else _distinct(codes)


def _distinct(codes: Codes) -> int:
    return int(np.count_nonzero(np.bincount(codes)))


def raw_scores(state: ScoreState, nodes: Nodes) -> Vector:
    """Σ over the constraints, rounded half up; the fewer the better. Ignored nodes are for `normalize` to see to."""
    first, *others = state.weighed
    if not others and not isinstance(first.pods, RowAmounts):
        scores: Vector = np.floor(first.table(first.pods) + 0.5).take(nodes.label_codes(first.constraint.topology_key))
    else:
        scores = first.score(nodes)
        for weighed in others:
            scores += weighed.score(nodes)
        scores += 0.5
        np.floor(scores, out=scores)
    return scores


def normalize(state: ScoreState, scores: Vector) -> Vector:
    """100·(max+min-s) // max over the nodes that are not ignored; all 100 where max is 0."""
    ignored = state.ignored
    judged = scores if ignored is None else scores[~ignored]
    if not judged.size:
        return np.zeros(scores.shape)
    lowest, highest = float(judged.min()), float(judged.max())
    if highest == 0:
        final: Vector = np.full(scores.shape, float(MAX_NODE_SCORE))
    else:
        final = (highest + lowest) - scores
        final *= MAX_NODE_SCORE
        final /= highest
        np.floor(final, out=final)
    if ignored is not None:
        final[ignored] = 0
    return final
