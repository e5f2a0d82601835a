"""InterPodAffinity, the plugin: required and preferred pod affinity and anti-affinity, own and of running pods.

All counts come from the snapshot's PodIndex; the cost of a question does not grow with the number of running pods.
The framework calls it; it changes nothing but the cycle's state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from config.types import InterPodAffinityArgs
from kube.api.core import Node, Pod
from plugins.helpers.hints import is_same_pod, queue_if
from plugins.inter_pod_affinity import filtering, hints
from plugins.inter_pod_affinity.filtering import FilterState
from plugins.inter_pod_affinity.terms import NO_TERMS, ShapeTerms, select_namespaces, terms_of
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    MAX_NODE_SCORE,
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    Versioned,
)
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import SKIP, Status
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_index import PodIndex, Said, TermKind
from scheduler.snapshot.pod_info import PodInfo, PodShape
from scheduler.snapshot.snapshot import Nodes, Snapshot
from scheduler.snapshot.topology import DomainSums, Recent

NAME = "InterPodAffinity"
SCORE_STATE = NAME + "/score"
#: pod shapes whose terms are kept ready
MAX_SHAPES = 1024


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Near the pods that the pod wants near, far from those it or they want far."""

    name = NAME
    reads_requests = False
    bounded = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        given = args if isinstance(args, InterPodAffinityArgs) else InterPodAffinityArgs()
        self.hard_weight = given.hard_pod_affinity_weight
        self.ignore_existing = given.ignore_preferred_terms_of_existing_pods
        self.snapshot: Snapshot = handle.snapshot
        self.index = handle.snapshot.index(PodIndex)
        self._terms: Recent[bytes, ShapeTerms] = Recent()
        #: the version of the namespaces that the index was told of
        self._namespaces_seen = -1
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        self.events = (
            on(EventResource.POD, pods, hint=self.after_pod_change),
            on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, hint=self.after_node_change),
        )

    # --- PreFilter and Filter -----------------------------------------------------------------------------

    def quiet_while(self, shape: PodShape) -> tuple[Versioned, ...] | None:
        """Pods without terms of their own, while no term of a running pod means them."""
        if shape.has_affinity:
            return None
        self._see_namespaces(False)
        if any(self.index.said_about(shape).amounts):
            return None
        if self.index.namespace_terms:
            return self.index, self.handle.listers("Namespace")
        return (self.index,)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Counts the pod's required terms and the anti-affinity of running pods; Skip where there is neither."""
        shape = state.pod_info.shape
        terms = self._terms_of(shape)
        self._see_namespaces(terms.required_select_namespaces)
        counts = filtering.filter_state(self.index, self.snapshot, shape, terms)
        if counts is None:
            return SKIP
        state.write(NAME, counts)
        return None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        """A dry run put a pod on a node."""
        self._change(state, added, node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """A dry run took a pod off a node."""
        self._change(state, removed, node, -1)

    def _change(self, state: CycleState, other: PodInfo, node: NodeInfo, sign: int) -> None:
        counts: FilterState | None = state.read(NAME)
        if counts is not None:
            self._see_namespaces(select_namespaces(other.shape.required_anti_affinity))
            filtering.change(counts, self.index, other, node, sign)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        """Near enough, and in no forbidden domain."""
        return filtering.allowed_mask(state.read(NAME), nodes)

    def concerned_by(self, state: CycleState, shape: PodShape) -> bool:
        """Only pods that a required term means count, and such whose own anti-affinity means the pod."""
        self._see_namespaces(select_namespaces(shape.required_anti_affinity))
        return filtering.is_concerned_by(state.read(NAME), self.index, shape)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same for one node, with the pods that a dry run added and removed."""
        return filtering.judge_node(state.read(NAME), self.snapshot, node)

    def refusals(self, state: CycleState, pod: Pod, nodes: Nodes) -> Refusals:
        """The first rule that refused each node."""
        counts: FilterState = state.read(NAME)
        near = filtering.affinity_mask(counts, nodes)
        free = filtering.anti_affinity_mask(counts, nodes)
        which = np.where(near, np.where(free, 2, 1), 0).astype(np.intp)
        statuses = (filtering.AFFINITY, filtering.ANTI_AFFINITY, filtering.EXISTING_ANTI_AFFINITY)
        present = np.unique(which)
        return Refusals(tuple(statuses[i].by(NAME) for i in present.tolist()), np.searchsorted(present, which))

    # --- Score --------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Adds up the preferences that concern the pod, its own and others'; Skip where there are none."""
        shape = state.pod_info.shape
        terms = self._terms_of(shape)
        if self.ignore_existing and not terms.preferred:
            return SKIP
        self._see_namespaces(terms.preferred_select_namespaces)
        wishes = Wishes(self.snapshot)
        for key, selector, weight in terms.preferred:
            wishes.add(key, self.index.counted(selector).by_domain(self.snapshot, key), weight)
        said = self.index.said_about(shape)
        if self.hard_weight > 0:
            wishes.add_said(said, TermKind.REQUIRED_AFFINITY, self.hard_weight)
        wishes.add_said(said, TermKind.PREFERRED, 1)
        if not wishes.sums:
            return SKIP
        state.write(SCORE_STATE, wishes.sums)
        return None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | Status:
        """Σ of the wishes in the node's domains."""
        scores: Vector | None = None
        for key, sums in state.read(SCORE_STATE).items():
            here = sums.take(nodes.label_codes(key))
            scores = here if scores is None else np.add(scores, here, out=scores)
        return nodes.zeros if scores is None else scores

    def normalize(self, state: CycleState, pod: Pod, scores: Vector, nodes: Nodes) -> Vector:
        """From the worst (0) to the best (100); upstream divides first and truncates then."""
        if not scores.size:
            return scores
        lowest, highest = float(np.minimum.reduce(scores)), float(np.maximum.reduce(scores))
        if lowest == highest:
            return np.zeros(scores.shape)
        final = scores - lowest
        final /= highest - lowest
        final *= MAX_NODE_SCORE
        return np.floor(final, out=final)

    # --- queueing hints -----------------------------------------------------------------------------------

    def after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """The pod itself, or an assigned one, changed."""
        if is_same_pod(pod, new):
            return QueueingHint.QUEUE
        if not hints.are_assigned(old, new):
            return QueueingHint.SKIP
        shape = self.snapshot.shapes.shape(pod)
        terms, before, after = self._terms_of(shape), self._shape(old), self._shape(new)
        existing = before.required_anti_affinity if before is not None else ()
        self._see_namespaces(terms.required_select_namespaces or select_namespaces(existing))
        return queue_if(hints.after_pod_change(self.index, shape, terms, before, after))

    def after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """A node was added, or its labels changed."""
        terms = self._terms_of(self.snapshot.shapes.shape(pod))
        return queue_if(new is not None and hints.after_node_change(terms, old, new))

    def _shape(self, pod: Pod | None) -> PodShape | None:
        return None if pod is None else self.snapshot.shapes.shape(pod)

    # --- kept per shape -----------------------------------------------------------------------------------

    def _terms_of(self, shape: PodShape) -> ShapeTerms:
        if not shape.has_affinity:
            return NO_TERMS
        terms = self._terms.get(shape.family_key)
        if terms is None:
            terms = terms_of(shape)
            self._terms.put(shape.family_key, terms)
            if len(self._terms) > MAX_SHAPES:
                self._terms.pop_oldest()
        return terms

    def _see_namespaces(self, needed: bool) -> None:
        """Namespaces' labels matter where a term selects by them, the pod's or a running one's."""
        if needed or self.index.namespace_terms:
            lister = self.handle.listers("Namespace")
            if self._namespaces_seen != lister.version:
                self._namespaces_seen = lister.version
                self.index.see_namespaces(lister.list())


class Wishes:
    """Σ weights by topology key and label code. A key is there if some wish concerns some node that has it."""

    __slots__ = ("_snapshot", "sums")

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.sums: dict[str, Vector] = {}

    def add_said(self, said: Said, kind: TermKind, factor: int) -> None:
        """What running pods want of this one."""
        for key, amounts in said.amounts[kind].items():
            found = amounts.by_domain(self._snapshot, key)
            if not self.add(key, found, factor) and said.cancels_out(kind, key, self._snapshot.nodes.label_codes(key)):
                self.sums.setdefault(key, found.values)

    def add(self, key: str, found: DomainSums, weight: int) -> bool:
        """False where there is nothing to add; a total of 0 may still be + here and - there."""
        if not found.total and not found.values.any():
            return False
        amounts = found.values if weight == 1 else weight * found.values
        known = self.sums.get(key)
        self.sums[key] = amounts if known is None else known + amounts
        return True
