"""NodeName: a pod that names its node goes there or nowhere.

Called by the framework; it never looks at more than the node's name.
"""

from __future__ import annotations

from kube.api.core import Pod
from scheduler.framework.cluster_event import Action, EventResource, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import FilterPlugin
from scheduler.framework.status import Code, Status
from scheduler.snapshot.columns import Mask
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes


class NodeName(FilterPlugin):
    """Refuse all nodes but the one in `spec.nodeName`.

    Its scope stays CLUSTER: the node's name is no part of a pod's shape, so an answer must not be kept for the shape.
    """

    name = "NodeName"
    reads_requests = False
    depends_on_pods = False
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    reason = "node(s) didn't match the requested node name"
    events = (on(EventResource.NODE, Action.ADD),)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | None:
        """A pod that is still to be scheduled rarely names a node."""
        wanted = pod.spec.node_name
        if not wanted:
            return None
        named = nodes.snapshot.nodes.none
        row = nodes.snapshot.row_of.get(wanted)
        if row is not None:
            named[row] = True
        mask: Mask = nodes.gather(named)
        return mask

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same rule for one node."""
        if pod.spec.node_name in {"", node.name}:
            return None
        return Status(self.code, (self.reason,), self.name)
