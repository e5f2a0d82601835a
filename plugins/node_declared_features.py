"""NodeDeclaredFeatures: a pod that needs a kubelet feature goes to nodes that declare it.

What a pod needs is inferred from its spec, by the rules of the features that kubelets of 1.36 declare; most of those
concern updates of running pods only and never keep a pod from a node.

Called by the framework; it never looks at node versions or labels.
"""

from __future__ import annotations

import numpy as np

from kube.api.core import Node, Pod
from plugins.helpers.hints import is_same_pod, queue_if
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult, Scope, Versioned
from scheduler.framework.status import SKIP, Code, Status
from scheduler.snapshot.columns import Mask
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodShape
from scheduler.snapshot.snapshot import Nodes, Snapshot

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
NO_FEATURES: frozenset[str] = frozenset()


class FeatureIndex:
    """Which rows declare a feature. Owner: the snapshot, which reports every change."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._rows: dict[str, set[int]] = {}
        self._declared: dict[int, frozenset[str]] = {}

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """The node may declare other features now; a node that is gone declares none."""
        for feature in self._declared.pop(row, NO_FEATURES):
            self._rows[feature].discard(row)
        features = frozenset(declared_features(node))
        if features:
            self._declared[row] = features
        for feature in features:
            self._rows.setdefault(feature, set()).add(row)

    def rows_with(self, features: frozenset[str]) -> set[int]:
        """Rows that declare all of these features (at least one is asked for)."""
        return set.intersection(*(self._rows.get(feature, set()) for feature in features))


def required_features(pod: Pod) -> frozenset[str]:
    """The features that a node must declare to run the pod."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    if any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules):
        return frozenset((RESTART_ALL_CONTAINERS,))
    return NO_FEATURES


def features_changed(pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
    """The node is new or declares other features than before."""
    return queue_if(new is not None and (old is None or old.status.declared_features != new.status.declared_features))


def own_requirements_changed(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """The pod itself needs other features than before."""
    return queue_if(
        old is not None
        and new is not None
        and is_same_pod(pod, new)
        and required_features(old) != required_features(new)
    )


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin):
    """Refuse nodes that do not declare every feature the pod needs."""

    name = "NodeDeclaredFeatures"
    reads_requests = False
    scope = Scope.NODE
    depends_on_pods = False
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    reason = "node(s) didn't match Pod's required features"
    events = (
        on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE, hint=features_changed),
        on(EventResource.UNSCHEDULED_POD, Action.UPDATE, hint=own_requirements_changed),
    )

    def quiet_while(self, shape: PodShape) -> tuple[Versioned, ...] | None:
        """Most pods need nothing special; with the feature gate off none does."""
        return None if self.handle.gate(self.name) and required_features(shape.pod) else ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Most pods need nothing special; with the feature gate off none does."""
        if self.handle.gate(self.name) and required_features(pod):
            return None
        return SKIP

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask:
        """The nodes that the index names."""
        rows = nodes.snapshot.index(FeatureIndex).rows_with(required_features(pod))
        declares = nodes.snapshot.nodes.none
        declares[np.fromiter(rows, np.intp, len(rows))] = True
        mask: Mask = nodes.gather(declares)
        return mask

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same rule for one node."""
        if required_features(pod).issubset(declared_features(node)):
            return None
        return Status(self.code, (self.reason,), self.name)


def declared_features(node: NodeInfo | None) -> tuple[str, ...]:
    """What the node says it can do."""
    return () if node is None or node.node is None else node.node.status.declared_features
