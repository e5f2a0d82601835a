"""PodTopologySpread, the plugin: hard constraints filter, soft ones score.

Counts come from the snapshot's PodIndex; what depends on the pod's shape and the node objects alone is kept per shape.
The framework calls it; besides what it keeps per shape it changes nothing but the cycle's state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from config.types import PodTopologySpreadArgs
from kube.api.core import Node, Pod
from kube.api.labels import Requirements, SelectorError
from plugins.helpers.hints import queue_if
from plugins.pod_topology_spread import filtering, hints, scoring
from plugins.pod_topology_spread.constraints import SYSTEM_DEFAULTS, Constraints, default_constraints, own_constraints
from plugins.pod_topology_spread.defaults import DefaultSelectors
from plugins.pod_topology_spread.domains import NO_CONSTRAINTS, DomainFinder, Group
from plugins.pod_topology_spread.filtering import FilterState
from plugins.pod_topology_spread.scoring import ScoreState
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    Versioned,
)
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import SKIP, Status, error
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_index import PodIndex
from scheduler.snapshot.pod_info import PodInfo, PodShape
from scheduler.snapshot.snapshot import Nodes, Snapshot
from scheduler.snapshot.topology import Recent

NAME = "PodTopologySpread"
SCORE_STATE = NAME + "/score"
PLAN = NAME + "/constraints"
#: pod shapes whose constraints and domains are kept
MAX_SHAPES = 512


@dataclass(slots=True)
class _Plan:
    """The constraints of a shape, and the domains that nodes of one epoch form for them."""

    constraints: Constraints
    #: what default constraints were made with
    default_selector: Requirements | None
    node_epoch: int = -1
    hard: Group = NO_CONSTRAINTS
    soft: Group = NO_CONSTRAINTS


class PodTopologySpread(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Keep the difference between the fullest and the emptiest domain small."""

    name = NAME
    reads_requests = False
    bounded = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        given = args if isinstance(args, PodTopologySpreadArgs) else PodTopologySpreadArgs()
        self.system_defaults = given.defaulting_type == "System"
        self.defaults = SYSTEM_DEFAULTS if self.system_defaults else given.default_constraints
        self.default_selectors = DefaultSelectors(handle.listers) if self.defaults else None
        self.snapshot: Snapshot = handle.snapshot
        self.match_label_keys = handle.gate("MatchLabelKeysInPodTopologySpread")
        operators = handle.gate("TaintTolerationComparisonOperators")
        self.domains = DomainFinder(handle.snapshot, comparison_operators=operators)
        self.index = handle.snapshot.index(PodIndex)
        self._plans: Recent[bytes, _Plan] = Recent()
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        self.events = (
            on(EventResource.POD, pods, hint=self.after_pod_change),
            on(EventResource.NODE, nodes, hint=self.after_node_change),
        )

    # --- PreFilter and Filter -----------------------------------------------------------------------------

    def quiet_while(self, shape: PodShape) -> tuple[Versioned, ...] | None:
        """Pods without constraints of their own, while no Service or owner gives them a selector."""
        if shape.pod.spec.topology_spread_constraints:
            return None
        if self.default_selectors is None:
            return ()
        constraints = self._plan(shape).constraints
        return None if constraints.hard or constraints.soft else self.default_selectors.asked_for(shape)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Counts the pods of each hard constraint's domains; Skip where there is none."""
        try:
            plan = self._plan(state.pod_info.shape)
        except SelectorError as problem:
            return error(f"obtaining pod's hard topology spread constraints: {problem}")
        state.write(PLAN, plan)
        if not plan.constraints.hard:
            return SKIP
        self._find_domains(plan, pod)
        state.write(NAME, filtering.filter_state(self.index, self.snapshot, plan.constraints.hard, plan.hard.domains))
        return None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        """A dry run put a pod on a node."""
        self._change(state, pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """A dry run took a pod off a node."""
        self._change(state, pod, removed, node, -1)

    def _change(self, state: CycleState, pod: Pod, other: PodInfo, node: NodeInfo, sign: int) -> None:
        counts: FilterState | None = state.read(NAME)
        if counts is not None and other.shape.namespace == pod.metadata.namespace:
            filtering.change(counts, self.snapshot, other, node, sign)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        """No constraint is broken by one more pod."""
        return filtering.allowed_mask(state.read(NAME), nodes)

    def concerned_by(self, state: CycleState, shape: PodShape) -> bool:
        """Only pods of the namespace that a constraint counts."""
        counts: FilterState = state.read(NAME)
        return shape.namespace == state.pod_info.shape.namespace and any(
            each.constraint.matches(shape.labels) for each in counts.counts
        )

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same for one node, with the pods that a dry run added and removed."""
        return filtering.judge_node(state.read(NAME), self.snapshot, node)

    def refusals(self, state: CycleState, pod: Pod, nodes: Nodes) -> Refusals:
        """A missing key cannot be mended by evicting pods; skew can."""
        missing, skewed = filtering.first_refusals(state.read(NAME), nodes)
        present = [s.by(NAME) for s, m in ((filtering.MISSING_KEY, missing), (filtering.SKEWED, skewed)) if m.any()]
        return Refusals(tuple(present), (skewed if len(present) > 1 else nodes.none).astype(np.intp))

    # --- Score --------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Weighs each soft constraint by the domains of the feasible nodes; Skip where there is none."""
        try:
            plan: _Plan = state.read(PLAN) or self._plan(state.pod_info.shape)
        except SelectorError as problem:
            return error(f"obtaining pod's soft topology spread constraints: {problem}")
        if not plan.constraints.soft:
            return SKIP
        self._find_domains(plan, pod)
        state.write(SCORE_STATE, scoring.score_state(self.index, nodes, plan.constraints, plan.soft))
        return None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | Status:
        """Σ count·weight + maxSkew-1; the fewer the better."""
        return scoring.raw_scores(state.read(SCORE_STATE), nodes)

    def normalize(self, state: CycleState, pod: Pod, scores: Vector, nodes: Nodes) -> Vector:
        """Turned round: 100 for the emptiest."""
        found: ScoreState = state.read(SCORE_STATE)
        return scoring.normalize(found, scores)

    # --- queueing hints -----------------------------------------------------------------------------------

    def after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """The pod itself, or an assigned one of its namespace, changed."""
        return queue_if(hints.after_pod_change(pod, self._hard(pod), old, new))

    def after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """A node came, went or changed."""
        return queue_if(hints.after_node_change(self._hard(pod), old, new))

    def _hard(self, pod: Pod) -> hints.Hard:
        return self._plan(self.snapshot.shapes.shape(pod)).constraints.hard

    # --- what is kept per shape ---------------------------------------------------------------------------

    def _plan(self, shape: PodShape) -> _Plan:
        own = shape.pod.spec.topology_spread_constraints
        selector = None if own or self.default_selectors is None else self.default_selectors.of(shape)
        plan = self._plans.get(shape.family_key)
        if plan is None or plan.default_selector != selector:
            if own:
                match_labels = shape.labels if self.match_label_keys else {}
                constraints = own_constraints(own, shape.namespace, shape.labels, match_labels)
            else:
                constraints = default_constraints(
                    self.defaults, selector or (), shape.namespace, shape.labels,
                    require_all_keys=not self.system_defaults,
                )  # fmt: skip
            plan = _Plan(constraints, selector)
            self._plans.put(shape.family_key, plan)
            if len(self._plans) > MAX_SHAPES:
                self._plans.pop_oldest()
        return plan

    def _find_domains(self, plan: _Plan, pod: Pod) -> None:
        if plan.node_epoch == self.snapshot.node_epoch:
            return
        constraints, find = plan.constraints, self.domains.find
        plan.hard = find(constraints.hard, pod, require_all_keys=True)
        plan.soft = find(constraints.soft, pod, require_all_keys=constraints.require_all_keys)
        plan.node_epoch = self.snapshot.node_epoch
