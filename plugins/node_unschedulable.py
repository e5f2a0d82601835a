"""NodeUnschedulable: cordoned nodes take only pods that tolerate being there.

Called by the framework; it never looks at taints of the node: the cordon is a field of its own.
"""

from __future__ import annotations

import numpy as np

from kube.api.core import Node, Pod, Taint
from kube.api.tolerations import NO_SCHEDULE, tolerates_taint
from plugins.helpers.hints import is_same_pod, queue_if
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import FilterPlugin, Scope
from scheduler.framework.status import Code, Status
from scheduler.snapshot.columns import Mask
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


def became_schedulable(pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
    """The node was added schedulable, or its cordon was lifted."""
    return queue_if(new is not None and not new.spec.unschedulable and (old is None or old.spec.unschedulable))


def tolerates_now(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """The pod itself was given the toleration."""
    return queue_if(new is not None and is_same_pod(pod, new) and tolerates_taint(new.spec.tolerations, UNSCHEDULABLE))


class NodeUnschedulable(FilterPlugin):
    """Refuse cordoned nodes, unless the pod tolerates node.kubernetes.io/unschedulable:NoSchedule."""

    name = "NodeUnschedulable"
    reads_requests = False
    scope = Scope.NODE
    depends_on_pods = False
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    reason = "node(s) were unschedulable"
    events = (
        on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, hint=became_schedulable),
        on(EventResource.POD, Action.UPDATE_POD_TOLERATION, hint=tolerates_now),
    )

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask:
        """Whoever tolerates the cordon may go anywhere."""
        if tolerates_taint(pod.spec.tolerations, UNSCHEDULABLE):
            return nodes.all
        return np.logical_not(nodes.unschedulable)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same rule for one node."""
        assert node.node is not None
        if not node.node.spec.unschedulable or tolerates_taint(pod.spec.tolerations, UNSCHEDULABLE):
            return None
        return Status(self.code, (self.reason,), self.name)
