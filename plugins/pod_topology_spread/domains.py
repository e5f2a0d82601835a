"""Which nodes form the domains of a constraint: those with the keys, and those that the inclusion policies let count.

It depends on the pod's shape and the node objects alone, so the plugin keeps it until a node object changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kube.api.core import Pod
from kube.api.tolerations import find_untolerated
from plugins.helpers.node_selection import match_required, selects_nodes
from plugins.pod_topology_spread.constraints import Constraint
from scheduler.snapshot.columns import Codes, Mask
from scheduler.snapshot.snapshot import Nodes, Snapshot


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains of one constraint."""

    #: `(rows,)` nodes that count; None: all that have the key
    included: Mask | None
    #: label codes of the domains
    codes: Codes
    #: distinct values among all nodes that have the keys asked for, no value being one
    distinct: int


class Inclusion:
    """Judges nodes for one pod; each policy once."""

    def __init__(self, snapshot: Snapshot, pod: Pod, *, comparison_operators: bool) -> None:
        self._nodes = snapshot.nodes
        self._pod = pod
        self._comparison_operators = comparison_operators
        self._affinity: Mask | None = None
        self._taints: Mask | None = None

    def domains(self, constraints: Sequence[Constraint], *, require_all_keys: bool) -> tuple[Domains, ...]:
        """The domains of each constraint; `require_all_keys`: only nodes that have all the constraints' keys."""
        nodes = self._nodes
        keyed = has_keys(nodes, constraints) if require_all_keys else nodes.all
        return tuple(self._domains_of(c, keyed) for c in constraints)

    def _domains_of(self, constraint: Constraint, keyed: Mask) -> Domains:
        codes = self._nodes.label_codes(constraint.topology_key)
        have_key = codes > 0
        included = keyed & have_key
        if constraint.honor_affinity and selects_nodes(self._pod):
            included &= self._selected()
        if constraint.honor_taints:
            included &= self._tolerated()
        present = np.bincount(codes, included) > 0
        everybody = np.array_equal(included, have_key)
        distinct = np.count_nonzero(np.bincount(codes, keyed))
        return Domains(None if everybody else included, present.nonzero()[0], int(distinct))

    def _selected(self) -> Mask:
        if self._affinity is None:
            self._affinity = match_required(self._nodes, self._pod)
        return self._affinity

    def _tolerated(self) -> Mask:
        if self._taints is None:
            tolerations, operators = self._pod.spec.tolerations, self._comparison_operators
            taint_sets = self._nodes.snapshot.taint_sets.values
            free = [find_untolerated(t, tolerations, comparison_operators=operators) is None for t in taint_sets]
            self._taints = np.array(free, np.bool_).take(self._nodes.taints)
        return self._taints


def has_keys(nodes: Nodes, constraints: Sequence[Constraint]) -> Mask:
    """`(size,)` bool: nodes that have the topology keys of all constraints."""
    mask = nodes.all
    for constraint in constraints:
        mask &= nodes.label_codes(constraint.topology_key) > 0
    return mask
