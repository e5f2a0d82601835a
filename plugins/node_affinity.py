"""NodeAffinity: which nodes a pod asks for by labels and name, and which of them it prefers.

Node selector, required terms and preferred terms of the pod, and those that the profile adds to every pod. A term is
judged once per distinct value of the labels it names; nodes look their answer up by the code of their value.

Called by the framework; the rules for one node are `kube.api.node_affinity`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kube.api.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PreferredSchedulingTerm
from kube.api.labels import EXISTS, IN, NOT_IN
from kube.api.node_affinity import (
    METADATA_NAME,
    match_expression,
    match_field,
    match_node_selector,
    preferred_node_terms,
    required_node_affinity_matches,
    required_node_selector,
)
from plugins.helpers.hints import queue_if
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Refusals,
    Scope,
    ScorePlugin,
    max_normalize,
)
from scheduler.framework.status import SKIP, Code, Status, unresolvable
from scheduler.snapshot.columns import LabelValues, Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes

NOT_MATCHED = "node(s) didn't match Pod's node affinity/selector"
NOT_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Refuse nodes that the pod (or the profile) does not select; score by preferred terms."""

    name = "NodeAffinity"
    scope = Scope.NODE
    depends_on_pods = False
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def __init__(self, args: Any, handle: Handle) -> None:
        """`args`: NodeAffinityArgs, or None."""
        super().__init__(args, handle)
        added = args.added_affinity if args is not None else None
        self.added_required: NodeSelector | None = None
        self.added_preferred: tuple[PreferredSchedulingTerm, ...] = ()
        if added is not None:
            self.added_required = added.required_during_scheduling_ignored_during_execution
            self.added_preferred = added.preferred_during_scheduling_ignored_during_execution
        self.events = (on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, hint=self.came_to_match),)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """SKIP where nothing is asked for; a set of nodes where every term names its nodes."""
        required = required_node_selector(pod)
        if required is None and not pod.spec.node_selector and self.added_required is None:
            return SKIP
        names = named_nodes(required) if required is not None else None
        if names is None:
            return None
        return PreFilterResult(names) if names else unresolvable(CONFLICT)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask:
        """addedAffinity AND nodeSelector AND required terms."""
        mask = self._enforced(nodes)
        for key, value in pod.spec.node_selector.items():
            mask &= nodes.label_codes(key) == nodes.snapshot.label(key).values.code_of.get(value, -1)
        required = required_node_selector(pod)
        if required is not None:
            mask &= match_selector(nodes, required)
        return mask

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same rule for one node."""
        if self.added_required is not None and not match_node_selector(self.added_required, node.labels, node.name):
            return Status(self.code, (NOT_ENFORCED,), self.name)
        if not required_node_affinity_matches(pod, node.labels, node.name):
            return Status(self.code, (NOT_MATCHED,), self.name)
        return None

    def refusals(self, state: CycleState, pod: Pod, nodes: Nodes) -> Refusals:
        """The profile's own affinity is asked first."""
        statuses = (Status(self.code, (NOT_ENFORCED,), self.name), Status(self.code, (NOT_MATCHED,), self.name))
        return Refusals(statuses, self._enforced(nodes).astype(np.intp))

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """SKIP where nothing is preferred."""
        return None if self.added_preferred or preferred_node_terms(pod) else SKIP

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector:
        """The sum of the weights of the matching preferred terms."""
        scores = nodes.zeros
        for term in (*self.added_preferred, *preferred_node_terms(pod)):
            scores += term.weight * match_term(nodes, term.preference)
        return scores

    def normalize(self, state: CycleState, pod: Pod, scores: Vector, nodes: Nodes) -> Vector:
        """100 for the highest sum."""
        return max_normalize(scores)

    def came_to_match(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """The node matches now and did not before, or was not there."""
        return queue_if(
            new is not None and self._matches(pod, new) and not (old is not None and self._matches(pod, old))
        )

    def _enforced(self, nodes: Nodes) -> Mask:
        return nodes.all if self.added_required is None else match_selector(nodes, self.added_required)

    def _matches(self, pod: Pod, node: Node) -> bool:
        labels, name = node.metadata.labels, node.metadata.name
        if self.added_required is not None and not match_node_selector(self.added_required, labels, name):
            return False
        return required_node_affinity_matches(pod, labels, name)


def named_nodes(selector: NodeSelector) -> frozenset[str] | None:
    """The union of the nodes that the terms name by metadata.name; None where a term does not name any."""
    union: frozenset[str] = frozenset()
    for term in selector.node_selector_terms:
        named = [frozenset(f.values) for f in term.match_fields if f.key == METADATA_NAME and f.operator == IN]
        if not named:
            return None
        union |= frozenset.intersection(*named)
    return union if selector.node_selector_terms else None


def match_selector(nodes: Nodes, selector: NodeSelector) -> Mask:
    """Nodes that match any of the terms; without terms none does."""
    mask = nodes.none
    for term in selector.node_selector_terms:
        mask |= match_term(nodes, term)
    return mask


def match_term(nodes: Nodes, term: NodeSelectorTerm) -> Mask:
    """Nodes for which all expressions and fields hold; an empty term matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return nodes.none
    mask = nodes.all
    for expression in term.match_expressions:
        mask &= values_matching(expression, nodes.snapshot.label(expression.key)).take(
            nodes.label_codes(expression.key)
        )
    for field in term.match_fields:
        mask &= nodes.gather(rows_matching(field, nodes))
    return mask


def values_matching(requirement: NodeSelectorRequirement, label: LabelValues) -> Mask:
    """Per code of the label's values, whether the requirement holds; hostname has as many values as there are nodes."""
    values = label.values
    table = np.zeros(len(values), np.bool_)
    match requirement.operator:
        case "In" | "NotIn" if requirement.values:
            table[[values.code_of[value] for value in requirement.values if value in values.code_of]] = True
            return np.logical_not(table) if requirement.operator == NOT_IN else table
        case "Exists" | "DoesNotExist" if not requirement.values:
            table[LabelValues.ABSENT] = True
            return np.logical_not(table) if requirement.operator == EXISTS else table
    for code, value in enumerate(values.values):
        table[code] = match_expression(requirement, {} if value is None else {requirement.key: value})
    return table


def rows_matching(requirement: NodeSelectorRequirement, nodes: Nodes) -> Mask:
    """Rows whose node's name the requirement selects; it names one node, so one row differs from all others."""
    everybody = nodes.snapshot.nodes
    mask = everybody.all if match_field(requirement, "") else everybody.none
    for name in requirement.values:
        row = nodes.snapshot.row_of.get(name)
        if row is not None:
            mask[row] = match_field(requirement, name)
    return mask
