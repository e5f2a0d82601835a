"""NodePorts: a host port on a node is given once.

Two host ports clash when protocol and port are equal and so are the addresses, or one of them is 0.0.0.0, all
addresses. An index over rows knows which nodes have which ports in use.

Called by the framework; it never looks at container ports without a host port.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from kube.api import pod_requests
from kube.api.core import Pod
from plugins.helpers.hints import had_a_place, queue_if
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult, Scope
from scheduler.framework.status import SKIP, Code, Status
from scheduler.snapshot.columns import Mask
from scheduler.snapshot.node_info import NodeInfo, ports_conflict
from scheduler.snapshot.pod_info import PodInfo, PodShape
from scheduler.snapshot.snapshot import Nodes, Snapshot

ANY_ADDRESS = "0.0.0.0"

#: protocol, address, port
HostPort = tuple[str, str, int]


class HostPortIndex:
    """Which rows have which host ports in use. Owner: the snapshot, which reports every change."""

    def __init__(self, snapshot: Snapshot) -> None:
        #: (protocol, port) -> address -> row -> number of pods
        self._used: dict[tuple[str, int], dict[str, dict[int, int]]] = {}

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """Ports belong to pods, which are reported one by one."""

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """The pod's host ports are in use on this row."""
        for protocol, address, port in pod.shape.host_ports:
            rows = self._used.setdefault((protocol, port), {}).setdefault(address, {})
            rows[row] = rows.get(row, 0) + 1

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The pod's host ports are free again; what nobody uses is forgotten."""
        for protocol, address, port in pod.shape.host_ports:
            by_address = self._used[protocol, port]
            rows = by_address[address]
            rows[row] -= 1
            if not rows[row]:
                del rows[row]
            if not rows:
                del by_address[address]
            if not by_address:
                del self._used[protocol, port]

    def conflicting_rows(self, wanted: HostPort) -> list[Collection[int]]:
        """Rows where the port is taken, as one collection per address it is taken under."""
        protocol, address, port = wanted
        by_address: Mapping[str, dict[int, int]] = self._used.get((protocol, port), {})
        return [rows for used, rows in by_address.items() if ANY_ADDRESS in (address, used) or address == used]


def conflicting_port_freed(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """The deleted pod had a place and held a host port that this pod wants."""
    return queue_if(old is not None and had_a_place(old) and _clash(pod_requests.host_ports(pod), old))


class NodePorts(PreFilterPlugin, FilterPlugin):
    """Refuse nodes where a wanted host port is taken."""

    name = "NodePorts"
    reads_requests = False
    scope = Scope.ROW
    fewer_pods_help = True
    code = Code.UNSCHEDULABLE
    reason = "node(s) didn't have free ports for the requested pod ports"
    events = (
        on(EventResource.POD, Action.DELETE, hint=conflicting_port_freed),
        on(EventResource.NODE, Action.ADD),
    )

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Most pods want no host port."""
        return None if state.pod_info.shape.host_ports else SKIP

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask:
        """All nodes but those that the index names."""
        index = nodes.snapshot.index(HostPortIndex)
        taken = [rows for wanted in state.pod_info.shape.host_ports for rows in index.conflicting_rows(wanted)]
        free = nodes.snapshot.nodes.all
        for rows in taken:
            free[np.fromiter(rows, np.intp, len(rows))] = False
        mask: Mask = nodes.gather(free)
        return mask

    def concerned_by(self, state: CycleState, shape: PodShape) -> bool:
        """Only pods with host ports take or free one."""
        return bool(shape.host_ports)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same rule for one node."""
        if not any(ports_conflict(node.used_ports, *wanted) for wanted in state.pod_info.shape.host_ports):
            return None
        return Status(self.code, (self.reason,), self.name)


def _clash(wanted: Iterable[HostPort], other: Pod) -> bool:
    used: dict[tuple[str, int], dict[str, int]] = {}
    for protocol, address, port in pod_requests.host_ports(other):
        used.setdefault((protocol, port), {})[address] = 1
    return any(ports_conflict(used, *port) for port in wanted)
