"""TaintToleration: nodes repel pods by taints, pods put up with them by tolerations.

NoSchedule and NoExecute taints refuse, PreferNoSchedule taints make a node less wanted. Taint sets are interned in the
snapshot, so each set that occurs is judged once and nodes look their answer up.

Called by the framework; it never evicts: NoExecute on running pods is not a scheduler's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
from scheduler.snapshot.topology import Recent

#: lists of tolerations whose answers are kept
MAX_TOLERATIONS = 256


@dataclass(frozen=True, slots=True)
class _Answers:
    """What one list of tolerations says about every taint set, by the set's code."""

    #: `(sets,)` whether the set keeps the pod out; None: none does
    tolerated: Mask | None
    #: `(sets,)` float64, number of PreferNoSchedule taints that are not tolerated; None: none anywhere
    unwanted: Vector | None
    #: the sets, and how many there were
    sets: Sequence[tuple[Taint, ...]]
    count: int


class TaintToleration(FilterPlugin, PreScorePlugin, ScorePlugin):
    """Refuse nodes with taints the pod does not tolerate; prefer those with fewer PreferNoSchedule ones."""

    name = "TaintToleration"
    reads_requests = False
    scope = Scope.NODE
    bounded = True
    depends_on_pods = False
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    reason = "node(s) had untolerated taint(s)"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.comparison_operators = handle.gate("TaintTolerationComparisonOperators")
        self._answers: Recent[tuple[Toleration, ...], _Answers] = Recent()
        self.events = (
            on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, hint=self.became_tolerable),
            on(EventResource.POD, Action.UPDATE_POD_TOLERATION, hint=own_tolerations_changed),
        )

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | None:
        """One answer per taint set, looked up by the nodes."""
        tolerated = self._answers_to(pod.spec.tolerations, nodes).tolerated
        return None if tolerated is None else tolerated.take(nodes.taints)

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
        unwanted = self._answers_to(pod.spec.tolerations, nodes).unwanted
        return 0.0 if unwanted is None else unwanted.take(nodes.taints)

    def normalize(self, state: CycleState, pod: Pod, scores: Vector, nodes: Nodes) -> Vector:
        """Fewer is better."""
        return max_normalize(scores, reverse=True)

    def became_tolerable(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """The node's taints were not tolerated before, or there was no node, and now they are."""
        tolerations = pod.spec.tolerations
        was_tolerated = old is not None and self._tolerates(tolerations, old.spec.taints)
        return queue_if(new is not None and not was_tolerated and self._tolerates(tolerations, new.spec.taints))

    def _answers_to(self, tolerations: tuple[Toleration, ...], nodes: Nodes) -> _Answers:
        """Kept until nodes have a taint set that no node had before, or the sets are numbered anew."""
        sets = nodes.snapshot.taint_sets.values
        known = self._answers.get(tolerations)
        if known is not None and known.sets is sets and known.count == len(sets):
            return known
        tolerated = np.array([self._tolerates(tolerations, taints) for taints in sets], np.bool_)
        unwanted = np.array([self._count(tolerations, taints) for taints in sets], np.float64)
        answers = _Answers(
            None if tolerated.all() else tolerated, unwanted if unwanted.any() else None, sets, len(sets)
        )
        self._answers.put(tolerations, answers)
        if len(self._answers) > MAX_TOLERATIONS:
            self._answers.pop_oldest()
        return answers

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
