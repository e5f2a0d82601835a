"""NodeAffinity: which nodes a pod asks for by labels and name, and which of them it prefers.

Node selector, required terms and preferred terms of the pod, and those that the profile adds to every pod. A term is
judged once per distinct value of the labels it names; nodes look their answer up by the code of their value.

Called by the framework; the rules for one node are `kube.api.node_affinity`, those for all `helpers.node_selection`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kube.api.core import Node, NodeSelector, Pod, PreferredSchedulingTerm
from kube.api.labels import IN
from kube.api.node_affinity import (
    METADATA_NAME,
    match_node_selector,
    preferred_node_terms,
    required_node_affinity_matches,
    required_node_selector,
)
from plugins.helpers.hints import queue_if
from plugins.helpers.node_selection import match_required, match_selector, match_term
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Scope,
    ScorePlugin,
    max_normalize,
)
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import SKIP, Code, Status, unresolvable
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes

NOT_MATCHED = "node(s) didn't match Pod's node affinity/selector"
NOT_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Refuse nodes that the pod (or the profile) does not select; score by preferred terms."""

    name = "NodeAffinity"
    reads_requests = False
    scope = Scope.NODE
    bounded = True
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
        mask = match_required(nodes, pod)
        return mask if self.added_required is None else mask & match_selector(nodes, self.added_required)

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
