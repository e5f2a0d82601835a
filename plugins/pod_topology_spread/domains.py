"""Which nodes form the domains of a constraint: those with the keys, and those that the inclusion policies let count.

It depends on the pod's shape and the node objects alone, so it is kept until a node object changes.
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


@dataclass(frozen=True, slots=True)
class Group:
    """The domains of constraints that are judged together."""

    domains: tuple[Domains, ...] = ()
    #: `(rows,)` nodes that have all the keys; None: all have
    keyed: Mask | None = None


NO_CONSTRAINTS = Group()


class DomainFinder:
    """Finds domains. Owner: the plugin of a profile.

    What depends on keys alone is the same for most pods: it is found once, until a node object changes.
    """

    def __init__(self, snapshot: Snapshot, *, comparison_operators: bool) -> None:
        self._snapshot = snapshot
        self._comparison_operators = comparison_operators
        self._node_epoch = -1
        self._keyed: dict[tuple[str, ...], Mask | None] = {}
        self._by_keys: dict[tuple[tuple[str, ...], str], Domains] = {}

    def find(self, constraints: Sequence[Constraint], pod: Pod, *, require_all_keys: bool) -> Group:
        """The domains of each constraint. `require_all_keys`: only nodes that have all the constraints' keys count."""
        if self._node_epoch != self._snapshot.node_epoch:
            self._node_epoch = self._snapshot.node_epoch
            self._keyed.clear()
            self._by_keys.clear()
        keys = tuple(sorted({constraint.topology_key for constraint in constraints}))
        policies = _Policies(self._snapshot.nodes, pod, comparison_operators=self._comparison_operators)
        needed = keys if require_all_keys else ()
        domains = tuple(self._domains(constraint, needed, policies) for constraint in constraints)
        return Group(domains, self._nodes_with(keys))

    def _nodes_with(self, keys: tuple[str, ...]) -> Mask | None:
        if keys not in self._keyed:
            nodes = self._snapshot.nodes
            keyed = nodes.all
            for key in keys:
                keyed &= nodes.label_codes(key) > 0
            self._keyed[keys] = None if np.array_equal(keyed, nodes.column("alive")) else keyed
        return self._keyed[keys]

    def _domains(self, constraint: Constraint, needed: tuple[str, ...], policies: _Policies) -> Domains:
        key = constraint.topology_key
        allowed = policies.allowed(constraint)
        if allowed is not None:
            return self._among(key, needed, allowed)
        if (needed, key) not in self._by_keys:
            self._by_keys[needed, key] = self._among(key, needed, None)
        return self._by_keys[needed, key]

    def _among(self, key: str, needed: tuple[str, ...], allowed: Mask | None) -> Domains:
        nodes = self._snapshot.nodes
        codes, keyed = nodes.label_codes(key), self._nodes_with(needed)
        counting = nodes.column("alive") if keyed is None else keyed
        have_key = codes > 0
        included = have_key & counting if allowed is None else have_key & counting & allowed
        present = np.bincount(codes, included) > 0
        distinct = np.count_nonzero(np.bincount(codes, counting))
        everybody = np.array_equal(included, have_key)
        return Domains(None if everybody else included, present.nonzero()[0], int(distinct))


class _Policies:
    """The inclusion policies for one pod; each judged once."""

    def __init__(self, nodes: Nodes, pod: Pod, *, comparison_operators: bool) -> None:
        self._nodes = nodes
        self._pod = pod
        self._comparison_operators = comparison_operators
        self._affinity: Mask | None = None
        self._taints: Mask | None = None

    def allowed(self, constraint: Constraint) -> Mask | None:
        """`(rows,)` nodes that the constraint's policies include; None: all."""
        selected = self._selected() if constraint.honor_affinity and selects_nodes(self._pod) else None
        tolerated = self._tolerated() if constraint.honor_taints else None
        if selected is None or tolerated is None:
            return selected if tolerated is None else tolerated
        return selected & tolerated

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
