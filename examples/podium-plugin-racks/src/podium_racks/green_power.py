"""GreenPower: the one-node form. The runtime asks about each feasible node, or a sample where there are many."""

from __future__ import annotations

from kube.api.core import Node, Pod
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import FilterPlugin, Scope, ScorePlugin
from scheduler.framework.status import Status, unresolvable
from scheduler.snapshot.node_info import NodeInfo

SHARE = "example.com/green-power"
REQUIRED = "example.com/green-power-only"


def share_of(node: Node | None) -> int:
    """Percent of green power, from the node's annotation; 0 where it is absent or no number."""
    text = node.metadata.annotations.get(SHARE, "") if node is not None else ""
    return min(int(text), 100) if text.isdecimal() else 0


def became_green(pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
    """A pod that waits is tried again only when some node's share grew to 100."""
    grew = share_of(new) == 100 and share_of(old) != 100
    return QueueingHint.QUEUE if grew else QueueingHint.SKIP


class GreenPower(FilterPlugin, ScorePlugin):
    """Prefer nodes by their share of green power; a pod may insist on nothing but green power."""

    name = "GreenPower"
    # What it says of a node depends on the node object alone: answers are kept for the next pod of the same shape.
    scope = Scope.NODE
    depends_on_pods = False
    events = (on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_ANNOTATION, hint=became_green),)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """None: fits. Evicting pods changes nothing about the power, hence `unresolvable`."""
        if pod.metadata.labels.get(REQUIRED) != "true" or share_of(node.node) == 100:
            return None
        return unresolvable("node(s) did not run on green power alone").by(self.name)

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """0..100."""
        return share_of(node.node)
