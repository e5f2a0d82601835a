"""RackRoom: the vectorised form, as podium's own plugins have it. One array for all nodes, with a row each."""

from __future__ import annotations

from typing import Any

import numpy as np

from kube.api.core import Pod
from scheduler.framework.cluster_event import Action, EventResource, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import FilterPlugin, ScorePlugin
from scheduler.framework.status import Code
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.snapshot import Nodes


class RackRoom(FilterPlugin, ScorePlugin):
    """Keep at most `maxPods` pods in a rack, and prefer the racks that hold the fewest.

    Arguments: `rackLabel` (the node label that names the rack) and `maxPods`. Nodes without the label are in no rack.
    """

    name = "RackRoom"
    code = Code.UNSCHEDULABLE
    reason = "node(s) were in a full rack"
    # Evicting a pod here could help, but this plugin does not count again in dry runs; it leaves that to others.
    depends_on_pods = False
    events = (
        on(EventResource.ASSIGNED_POD, Action.DELETE),
        on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
    )

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        given = args or {}
        self.label = str(given.get("rackLabel", "example.com/rack"))
        self.most = int(given.get("maxPods", 1_000))
        if self.most < 1:
            # Told to the operator in one line, with the plugin's name before it.
            raise ValueError(f"maxPods: expected at least 1, not {self.most}")

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask:
        """`(size,)` bool, True where the pod may go."""
        fits: Mask = (self._pods_of_rack(nodes) < self.most) | (nodes.label_codes(self.label) == 0)
        return fits

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector:
        """Raw: how many pods the rack holds."""
        return self._pods_of_rack(nodes)

    def normalize(self, state: CycleState, pod: Pod, scores: Vector, nodes: Nodes) -> Vector:
        """0..100, the emptiest rack 100; whole numbers, as everywhere."""
        most = scores.max() if scores.size else 0.0
        return np.full(scores.shape, 100.0) if most == 0 else np.floor(100.0 * (most - scores) / most)

    def _pods_of_rack(self, nodes: Nodes) -> Vector:
        """Summed over the whole cluster, then looked up for each row of the view. Code 0: no such label."""
        everywhere = self.handle.snapshot.nodes
        counts = np.bincount(everywhere.label_codes(self.label), weights=everywhere.requested("pods"))
        pods: Vector = counts.astype(np.float64)[nodes.label_codes(self.label)]
        return pods
