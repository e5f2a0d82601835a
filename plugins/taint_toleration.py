"""TaintToleration: nodes repel pods by taints, pods put up with them by tolerations.

NoSchedule and NoExecute taints refuse, PreferNoSchedule taints make a node less wanted. Taint sets are interned in the
snapshot, so each set that occurs is judged once and nodes look their answer up.

Called by the framework; it never evicts: NoExecute on running pods is not a scheduler's business.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kube.api.core import Node, Pod, Taint, Toleration
from kube.api.tolerations import PREFER_NO_SCHEDULE, find_untolerated, tolerates_taint
from plugins.helpers.hints import is_same_pod, queue_if
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import FilterPlugin, PreScorePlugin, Scope, ScorePlugin, max_normalize
from scheduler.framework.status import Code, Status
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes


class TaintToleration(FilterPlugin, PreScorePlugin, ScorePlugin):
    """Refuse nodes with taints the pod does not tolerate; prefer those with fewer PreferNoSchedule ones."""

    name = "TaintToleration"
    scope = Scope.NODE
    depends_on_pods = False
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    reason = "node(s) had untolerated taint(s)"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.comparison_operators = handle.gate("TaintTolerationComparisonOperators")
        self.events = (
            on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, hint=self.became_tolerable),
            on(EventResource.POD, Action.UPDATE_POD_TOLERATION, hint=own_tolerations_changed),
        )

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | None:
        """One answer per taint set, looked up by the nodes."""
        tolerations, sets = pod.spec.tolerations, nodes.snapshot.taint_sets.values
        tolerated = np.fromiter((self._tolerates(tolerations, taints) for taints in sets), np.bool_, len(sets))
        return None if tolerated.all() else tolerated.take(nodes.taints)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same rule for one node."""
        assert node.node is not None
        if self._tolerates(pod.spec.tolerations, node.node.spec.taints):
            return None
        return Status(self.code, (self.reason,), self.name)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Every pod is scored: nothing to prepare and nothing to skip."""
        return None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | float:
        """Number of PreferNoSchedule taints that no toleration matches; those of other effects never do."""
        tolerations, sets = pod.spec.tolerations, nodes.snapshot.taint_sets.values
        counts = np.fromiter((self._count(tolerations, taints) for taints in sets), np.float64, len(sets))
        return counts.take(nodes.taints) if counts.any() else 0.0

    def normalize(self, state: CycleState, pod: Pod, scores: Vector, nodes: Nodes) -> Vector:
        """Fewer is better."""
        return max_normalize(scores, reverse=True)

    def became_tolerable(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """The node's taints were not tolerated before, or there was no node, and now they are."""
        tolerations = pod.spec.tolerations
        was_tolerated = old is not None and self._tolerates(tolerations, old.spec.taints)
        return queue_if(new is not None and not was_tolerated and self._tolerates(tolerations, new.spec.taints))

    def _tolerates(self, tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
        return find_untolerated(taints, tolerations, comparison_operators=self.comparison_operators) is None

    def _count(self, tolerations: tuple[Toleration, ...], taints: Iterable[Taint]) -> int:
        return sum(
            not tolerates_taint(tolerations, taint, comparison_operators=self.comparison_operators)
            for taint in taints
            if taint.effect == PREFER_NO_SCHEDULE
        )


def own_tolerations_changed(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """Only the pod's own tolerations count."""
    return queue_if(is_same_pod(pod, new))
