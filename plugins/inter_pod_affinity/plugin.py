"""InterPodAffinity, the plugin: required and preferred pod affinity and anti-affinity, own and of running pods.

All counts come from the snapshot's PodIndex; the cost of a question does not grow with the number of running pods.
The framework calls it; it changes nothing but the cycle's state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from config.types import InterPodAffinityArgs
from kube.api.core import Node, Pod
from plugins.inter_pod_affinity import filtering, hints
from plugins.inter_pod_affinity.filtering import FilterState
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    MAX_NODE_SCORE,
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Refusals,
    ScorePlugin,
)
from scheduler.framework.status import SKIP, Status
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_index import PodIndex, TermKind, selecting
from scheduler.snapshot.pod_info import AffinityTerm, PodInfo, PodShape
from scheduler.snapshot.snapshot import Nodes, Snapshot

NAME = "InterPodAffinity"
SCORE_STATE = NAME + "/score"


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Near the pods that the pod wants near, far from those it or they want far."""

    name = NAME

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        given = args if isinstance(args, InterPodAffinityArgs) else InterPodAffinityArgs()
        self.hard_weight = given.hard_pod_affinity_weight
        self.ignore_existing = given.ignore_preferred_terms_of_existing_pods
        self.snapshot: Snapshot = handle.snapshot
        self.index = handle.snapshot.index(PodIndex)
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        self.events = (
            on(EventResource.POD, pods, hint=self.after_pod_change),
            on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, hint=self.after_node_change),
        )

    # --- PreFilter and Filter -----------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Counts the pod's required terms and the anti-affinity of running pods; Skip where there is neither."""
        shape = state.pod_info.shape
        self._see_namespaces(shape.required_affinity + shape.required_anti_affinity)
        counts = filtering.filter_state(self.index, self.snapshot, shape)
        if not (shape.required_affinity or shape.required_anti_affinity or counts.existing):
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
            self._see_namespaces(other.shape.required_anti_affinity)
            filtering.change(counts, self.index, other, node, sign)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        """Near enough, and in no forbidden domain."""
        counts: FilterState = state.read(NAME)
        mask = filtering.affinity_mask(counts, nodes)
        for forbidden in (counts.anti_affinity, counts.existing):
            if forbidden:
                mask &= filtering.free_mask(forbidden, nodes)
        return mask

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same for one node, with the pods that a dry run added and removed."""
        return filtering.judge_node(state.read(NAME), self.snapshot, node)

    def refusals(self, state: CycleState, pod: Pod, nodes: Nodes) -> Refusals:
        """The first rule that refused each node."""
        counts: FilterState = state.read(NAME)
        near = filtering.affinity_mask(counts, nodes)
        free = filtering.free_mask(counts.anti_affinity, nodes)
        which = np.where(near, np.where(free, 2, 1), 0).astype(np.intp)
        statuses = (filtering.AFFINITY, filtering.ANTI_AFFINITY, filtering.EXISTING_ANTI_AFFINITY)
        present = np.unique(which)
        return Refusals(tuple(statuses[i].by(NAME) for i in present.tolist()), np.searchsorted(present, which))

    # --- Score --------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Adds up the preferences that concern the pod, its own and others'; Skip where there are none."""
        shape = state.pod_info.shape
        own = shape.preferred_affinity + shape.preferred_anti_affinity
        if self.ignore_existing and not own:
            return SKIP
        self._see_namespaces(own)
        wishes = _Wishes(self.index, self.snapshot, shape)
        wishes.add_own(shape.preferred_affinity, 1)
        wishes.add_own(shape.preferred_anti_affinity, -1)
        if self.hard_weight > 0:
            wishes.add_existing(TermKind.REQUIRED_AFFINITY, self.hard_weight)
        wishes.add_existing(TermKind.PREFERRED, 1)
        if not wishes.sums:
            return SKIP
        state.write(SCORE_STATE, wishes.sums)
        return None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | Status:
        """Σ of the wishes in the node's domains."""
        scores = nodes.zeros
        for key, sums in state.read(SCORE_STATE).items():
            scores += sums.take(nodes.label_codes(key))
        return scores

    def normalize(self, state: CycleState, pod: Pod, scores: Vector, nodes: Nodes) -> Vector:
        """From the worst (0) to the best (100); upstream divides first and truncates then."""
        lowest, highest = float(scores.min()), float(scores.max())
        if lowest == highest:
            return np.zeros(scores.shape)
        final: Vector = np.floor(MAX_NODE_SCORE * ((scores - lowest) / (highest - lowest)))
        return final

    # --- queueing hints -----------------------------------------------------------------------------------

    def after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """The pod itself, or an assigned one, changed."""
        if new is not None and new.metadata.uid == pod.metadata.uid:
            return QueueingHint.QUEUE
        if not hints.are_assigned(old, new):
            return QueueingHint.SKIP
        shape, before, after = self._shape(pod), self._shape(old), self._shape(new)
        assert shape is not None
        existing = before.required_anti_affinity if before is not None else ()
        self._see_namespaces(shape.required_affinity + shape.required_anti_affinity + existing)
        return hints.after_pod_change(self.index, shape, before, after)

    def after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """A node was added, or its labels changed."""
        shape = self._shape(pod)
        assert shape is not None
        return QueueingHint.SKIP if new is None else hints.after_node_change(shape, old, new)

    def _shape(self, pod: Pod | None) -> PodShape | None:
        return None if pod is None else self.snapshot.shapes.shape(pod)

    def _see_namespaces(self, terms: tuple[AffinityTerm, ...]) -> None:
        """Namespaces' labels matter where a term selects by them."""
        if self.index.namespace_terms or any(term.namespace_selector for term in terms):
            self.index.see_namespaces(self.handle.listers("Namespace").list())


class _Wishes:
    """Σ weights by topology key and label code. A key is there if some wish concerns some node that has it."""

    __slots__ = ("_index", "_shape", "_snapshot", "sums")

    def __init__(self, index: PodIndex, snapshot: Snapshot, shape: PodShape) -> None:
        self._index, self._snapshot, self._shape = index, snapshot, shape
        self.sums: dict[str, Vector] = {}

    def add_own(self, terms: tuple[AffinityTerm, ...], sign: int) -> None:
        """What the pod prefers of running pods."""
        for term in terms:
            found = self._index.counted(selecting((term,))).by_domain(self._snapshot, term.topology_key)
            if found.any():
                self._add(term.topology_key, sign * term.weight * found)

    def add_existing(self, kind: TermKind, factor: int) -> None:
        """What running pods want of this one."""
        for key, amounts in self._index.said_about(kind, self._shape).items():
            found = amounts.by_domain(self._snapshot, key)
            if found.any() or self._index.cancels_out(kind, self._shape, key):
                self._add(key, factor * found)

    def _add(self, key: str, amounts: Vector) -> None:
        known = self.sums.get(key)
        self.sums[key] = amounts if known is None else known + amounts
