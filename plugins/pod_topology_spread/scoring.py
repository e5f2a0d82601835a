"""The soft constraints: the fewer matching pods in a node's domains, the better (facts 2.6). Used by the plugin.

Each constraint weighs ln(number of domains + 2), so that spreading over zones and over hosts can be added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plugins.pod_topology_spread.constraints import HOSTNAME, Constraint, Constraints
from plugins.pod_topology_spread.domains import Domains, has_keys
from scheduler.framework.plugin import MAX_NODE_SCORE
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.pod_index import PodIndex
from scheduler.snapshot.snapshot import Nodes, Snapshot
from scheduler.snapshot.topology import RowAmounts


@dataclass(frozen=True, slots=True)
class Weighed:
    """A constraint, its weight, and the pods it counts: by domain, or by node where each host is one."""

    constraint: Constraint
    weight: float
    pods: Vector | RowAmounts

    def score(self, nodes: Nodes) -> Vector:
        """`(size,)` count·weight + maxSkew-1; 0 where the key is missing."""
        codes = nodes.label_codes(self.constraint.topology_key)
        base = float(self.constraint.max_skew - 1)
        if isinstance(self.pods, RowAmounts):
            scores: Vector = self.pods.by_row(nodes) * self.weight + base
            return scores if codes.all() else scores * (codes > 0)
        table = self.pods * self.weight + base
        table[0] = 0
        return table.take(codes)


@dataclass(frozen=True, slots=True)
class ScoreState:
    """What PreScore found out about the feasible nodes."""

    weighed: tuple[Weighed, ...]
    #: `(size,)` feasible nodes that lack a key and so score 0; None: there are none
    ignored: Mask | None


def score_state(index: PodIndex, nodes: Nodes, constraints: Constraints, domains: Sequence[Domains]) -> ScoreState:
    """Weights and counts of the soft constraints, for these feasible nodes."""
    ignored: Mask | None = None
    if constraints.require_all_keys:
        keyed = has_keys(nodes, constraints.soft)
        ignored = None if keyed.all() else ~keyed
    weighed = (
        Weighed(c, math.log(_size(nodes, c, ignored) + 2), _pods(index, nodes.snapshot, c, d))
        for c, d in zip(constraints.soft, domains, strict=True)
    )
    return ScoreState(tuple(weighed), ignored)


def _pods(index: PodIndex, snapshot: Snapshot, constraint: Constraint, domains: Domains) -> Vector | RowAmounts:
    """On a host all its matching pods count; in a wider domain only those on nodes that the policies include."""
    amounts = index.counted(constraint.pods)
    if constraint.topology_key == HOSTNAME:
        return amounts
    return amounts.by_domain(snapshot, constraint.topology_key, domains.included)


def _size(nodes: Nodes, constraint: Constraint, ignored: Mask | None) -> int:
    """Distinct values among the feasible nodes that are not ignored; a missing key is a value here (facts 2.6)."""
    if constraint.topology_key == HOSTNAME:
        return nodes.size - (0 if ignored is None else int(np.count_nonzero(ignored)))
    codes = nodes.label_codes(constraint.topology_key)
    return int(np.count_nonzero(np.bincount(codes if ignored is None else codes[~ignored])))


def raw_scores(state: ScoreState, nodes: Nodes) -> Vector:
    """Σ over the constraints, rounded half up; the fewer the better."""
    total = nodes.zeros
    for weighed in state.weighed:
        total += weighed.score(nodes)
    scores: Vector = np.floor(total + 0.5)
    if state.ignored is not None:
        scores[state.ignored] = 0
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
        final = np.floor(MAX_NODE_SCORE * (highest + lowest - scores) / highest)
    if ignored is not None:
        final[ignored] = 0
    return final
