"""PodTopologySpread as its rules read (facts 2.6): one node at a time, looking at every pod of the cluster."""

import math
from dataclasses import dataclass
from typing import Any

from kube.api.core import Pod, TopologySpreadConstraint
from kube.api.labels import match_labels
from kube.api.node_affinity import required_node_affinity_matches
from kube.api.tolerations import find_untolerated
from scheduler.snapshot.node_info import NodeInfo
from tests.builders import HOSTNAME

SKEWED = "node(s) didn't match pod topology spread constraints"
MISSING_KEY = "node(s) didn't match pod topology spread constraints (missing required label)"


@dataclass
class Definition:
    """The rules for one pod with constraints of its own; `nodes` carry their pods."""

    pod: Pod
    nodes: list[NodeInfo]

    def constraints(self, when: str) -> list[TopologySpreadConstraint]:
        """The hard or the soft ones."""
        return [c for c in self.pod.spec.topology_spread_constraints if c.when_unsatisfiable == when]

    def matches(self, constraint: TopologySpreadConstraint, pod: Pod) -> bool:
        """Whether selector and matchLabelKeys match a pod."""
        own, labels = self.pod.metadata.labels, pod.metadata.labels
        keys = [key for key in constraint.match_label_keys if key in own]
        if any(labels.get(key) != own[key] for key in keys):
            return False
        # With nothing but matchLabelKeys they are the selector.
        return match_labels(constraint.label_selector, labels) or (constraint.label_selector is None and bool(keys))

    def count(self, constraint: TopologySpreadConstraint, node: NodeInfo) -> int:
        """The pods of a node that count: an empty selector counts none."""
        selector = constraint.label_selector
        keys = [key for key in constraint.match_label_keys if key in self.pod.metadata.labels]
        if selector is not None and not selector.match_labels and not selector.match_expressions and not keys:
            return 0
        return sum(
            info.pod.metadata.namespace == self.pod.metadata.namespace
            and info.pod.metadata.deletion_timestamp is None
            and self.matches(constraint, info.pod)
            for info in node.pods.values()
        )

    def includes(self, constraint: TopologySpreadConstraint, node: NodeInfo) -> bool:
        """Whether the policies let the node count."""
        if constraint.node_affinity_policy != "Ignore" and not required_node_affinity_matches(
            self.pod, node.labels, node.name
        ):
            return False
        assert node.node is not None
        taints = node.node.spec.taints
        return constraint.node_taints_policy != "Honor" or find_untolerated(taints, self.pod.spec.tolerations) is None

    def domains(self, constraint: TopologySpreadConstraint, group: list[TopologySpreadConstraint]) -> dict[str, int]:
        """Value to pods, over included nodes that have all keys of the group."""
        found: dict[str, int] = {}
        for node in self.nodes:
            if all(c.topology_key in node.labels for c in group) and self.includes(constraint, node):
                value = node.labels[constraint.topology_key]
                found[value] = found.get(value, 0) + self.count(constraint, node)
        return found

    def reason(self, node: NodeInfo) -> str:
        """Why the node is refused, "" where it is not."""
        hard = self.constraints("DoNotSchedule")
        for constraint in hard:
            value = node.labels.get(constraint.topology_key)
            if value is None:
                return MISSING_KEY
            domains = self.domains(constraint, hard)
            fewest = min(domains.values()) if len(domains) >= (constraint.min_domains or 1) else 0
            if domains.get(value, 0) + self.matches(constraint, self.pod) - fewest > constraint.max_skew:
                return SKEWED
        return ""

    def scores(self, feasible: list[NodeInfo]) -> dict[str, int] | None:
        """Name to final score; None where there are no soft constraints."""
        soft = self.constraints("ScheduleAnyway")
        if not soft:
            return None
        scored = [node for node in feasible if all(c.topology_key in node.labels for c in soft)]
        raw = {node.name: self._raw(soft, scored, node) for node in scored}
        low, high = min(raw.values(), default=0), max(raw.values(), default=0)
        final = {name: 100 * (high + low - s) // high if high else 100 for name, s in raw.items()}
        return {node.name: final.get(node.name, 0) for node in feasible}

    def _raw(self, soft: list[Any], scored: list[NodeInfo], node: NodeInfo) -> int:
        total = 0.0
        for constraint in soft:
            key = constraint.topology_key
            if key == HOSTNAME:
                size, count = len(scored), self.count(constraint, node)
            else:
                size = len({other.labels[key] for other in scored})
                count = self.domains(constraint, soft).get(node.labels[key], 0)
            total += count * math.log(size + 2) + (constraint.max_skew - 1)
        return math.floor(total + 0.5)
