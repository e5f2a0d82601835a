"""Placements of pod groups: which sets of nodes a group with a topology constraint may go to, and which is best (B4).

TopologyPlacementGenerator makes a placement of each value of the group's topology key; PodGroupPodsCount prefers the
placement that takes the most members.
"""

from __future__ import annotations

import numpy as np

from scheduler.framework.handle import Handle
from scheduler.framework.plugin import MAX_NODE_SCORE, Placement, PlacementGeneratePlugin, PlacementScorePlugin
from scheduler.framework.pod_groups import Group, PodGroups
from scheduler.framework.status import Status, error, unschedulable
from scheduler.snapshot.snapshot import Nodes

NO_PLACEMENTS = "no feasible placements found"


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    """One placement per value of the topology key among the nodes."""

    name = "TopologyPlacementGenerator"
    events = ()

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._members = handle.snapshot.index(PodGroups)

    def generate_placements(self, group: Group, nodes: Nodes) -> list[Placement] | Status:
        """Without a constraint all nodes are the one placement; members that run already fix theirs."""
        key = group.topology_key
        if not key:
            return [Placement("all nodes")]
        codes, alive = nodes.label_codes(key), nodes.all
        values = nodes.snapshot.label(key).values.values
        taken = {int(codes[row]) for row in self._members.of(group.key).scheduled.values()}
        if 0 in taken:
            return error(f'a member of pod group "{group.name}" runs on a node without the label {key}')
        if len(taken) > 1:
            where = ", ".join(sorted(str(values[code]) for code in taken))
            return error(f'members of pod group "{group.name}" run in more than one domain of {key}: {where}')
        found = sorted(taken) or np.unique(codes[alive & (codes > 0)]).tolist()
        if not found:
            return unschedulable(NO_PLACEMENTS)
        placements = [Placement(str(values[code]), alive & (codes == code)) for code in found]
        return sorted(placements, key=lambda placement: placement.name)


class PodGroupPodsCount(PlacementScorePlugin):
    """The more members a placement takes, the better."""

    name = "PodGroupPodsCount"
    events = ()

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._members = handle.snapshot.index(PodGroups)

    def score_placement(self, group: Group, nodes: Nodes) -> float:
        """Members that run, and those that the placement would take."""
        return float(len(self._members.of(group.key).scheduled))

    def normalize_placements(self, scores: list[float]) -> list[float]:
        """In relation to the best placement."""
        best = max(scores)
        return [float(int(score) * MAX_NODE_SCORE // int(best)) if best else 0.0 for score in scores]
