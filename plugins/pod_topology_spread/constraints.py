"""Topology spread constraints, parsed: the pod's own, or the profile's defaults with a selector made for the pod.

Pure functions and values; used by the plugin's other modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kube.api.core import TopologySpreadConstraint
from kube.api.labels import IN, Requirements, compile_selector, requirements_of
from scheduler.snapshot.pod_index import PodSelector, pods_in

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HONOR = "Honor"

#: defaultingType System
SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY),
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint of one pod, with upstream's defaults filled in."""

    topology_key: str
    max_skew: int
    min_domains: int
    #: nodes that the pod's node selector and affinity refuse form no domain
    honor_affinity: bool
    #: nor do nodes with a taint that keeps the pod away
    honor_taints: bool
    selector: Requirements | None
    #: the pods that count; an empty selector counts none, though it matches the pod itself
    pods: PodSelector
    #: 1 where the pod itself matches
    self_match: int

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the selector matches these labels."""
        return compile_selector(self.selector)(labels)


@dataclass(frozen=True, slots=True)
class Constraints:
    """All constraints of one pod."""

    hard: tuple[Constraint, ...]
    soft: tuple[Constraint, ...]
    #: nodes that lack any of the soft keys score 0; system defaults let them be (facts 2.6)
    require_all_keys: bool


def own_constraints(
    constraints: Iterable[TopologySpreadConstraint],
    namespace: str,
    labels: Mapping[str, str],
    match_labels: Mapping[str, str],
) -> Constraints:
    """The constraints that a pod brings. Raises SelectorError for a selector that no API server lets in.

    One of a kind that nobody knows is none, whatever it says otherwise. `match_labels`: what matchLabelKeys are looked
    up in, the pod's labels; none where the feature is off.
    """
    known = [c for c in constraints if c.when_unsatisfiable in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)]
    parsed = [(c.when_unsatisfiable, _constraint(c, _own_selector(c, match_labels), namespace, labels)) for c in known]
    return _sorted(parsed, require_all_keys=True)


def default_constraints(
    constraints: Iterable[TopologySpreadConstraint],
    selector: Requirements,
    namespace: str,
    labels: Mapping[str, str],
    *,
    require_all_keys: bool,
) -> Constraints:
    """The profile's constraints for a pod that brings none; an empty selector means the pod belongs to nothing."""
    if not selector:
        return Constraints((), (), require_all_keys)
    parsed = [(c.when_unsatisfiable, _constraint(c, selector, namespace, labels)) for c in constraints]
    return _sorted(parsed, require_all_keys=require_all_keys)


def _sorted(parsed: list[tuple[str, Constraint]], *, require_all_keys: bool) -> Constraints:
    return Constraints(
        hard=tuple(constraint for when, constraint in parsed if when == DO_NOT_SCHEDULE),
        soft=tuple(constraint for when, constraint in parsed if when == SCHEDULE_ANYWAY),
        require_all_keys=require_all_keys,
    )


def _constraint(
    constraint: TopologySpreadConstraint, selector: Requirements | None, namespace: str, labels: Mapping[str, str]
) -> Constraint:
    return Constraint(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honor_affinity=constraint.node_affinity_policy in (None, HONOR),
        honor_taints=constraint.node_taints_policy == HONOR,
        selector=selector,
        pods=pods_in(namespace, selector or None),
        self_match=int(compile_selector(selector)(labels)),
    )


def _own_selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Requirements | None:
    """The selector, and for each of matchLabelKeys that the pod has the pod's value (merging twice changes nothing)."""
    selector = requirements_of(constraint.label_selector)
    same = [(key, IN, (labels[key],)) for key in constraint.match_label_keys if key in labels]
    return tuple(sorted({*(selector or ()), *same})) if same else selector
