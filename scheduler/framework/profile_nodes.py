"""The nodes of a profile: `profiles[].nodeSelector`, podium's own, so that two schedulers need not meet on a node.

A filter like any other, so that simulations, explanations and preemption honour it in the same way; it stands before
all plugins of the profile and cannot be disabled. Built by `build_framework` where a profile has a selector.
"""

from __future__ import annotations

from collections.abc import Mapping

from kube.api.core import Node, Pod
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import FilterPlugin, Scope
from scheduler.framework.status import Code, Status
from scheduler.snapshot.columns import Mask
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes


class ProfileNodeSelector(FilterPlugin):
    """Refuse nodes that lack one of the profile's labels."""

    name = "ProfileNodeSelector"
    scope = Scope.NODE
    depends_on_pods = False
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    reason = "node(s) didn't match profile's node selector"

    def __init__(self, selector: Mapping[str, str], handle: Handle) -> None:
        super().__init__(selector, handle)
        self._selector = dict(selector)
        self.events = (on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, hint=self._joined),)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask:
        """All labels, with these values."""
        mask = nodes.all
        for key, value in self._selector.items():
            label = nodes.snapshot.label(key)
            mask &= nodes.label_codes(key) == label.code(value)
        return mask

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same rule for one node."""
        return None if self._matches(node.labels) else Status(self.code, (self.reason,), self.name)

    def _matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self._selector.items())

    def _joined(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """A node that is the profile's now, and was not before."""
        joined = new is not None and self._matches(new.metadata.labels)
        known = old is not None and self._matches(old.metadata.labels)
        return QueueingHint.QUEUE if joined and not known else QueueingHint.SKIP
