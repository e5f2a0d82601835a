"""The nominator: pods that preemption promised a place, by node.

Owner: the scheduling queue; the framework and preemption read it. A nomination is no reservation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kube.api.core import Pod
from scheduler.snapshot.pod_info import PodInfo


class Nominator:
    """node name -> nominated pods, and back."""

    __slots__ = ("_by_node", "_node_of")

    def __init__(self) -> None:
        self._by_node: dict[str, list[PodInfo]] = {}
        self._node_of: dict[str, str] = {}

    def add(self, info: PodInfo, node_name: str = "") -> None:
        """Nominate a pod, to the given node or the one in its status; the last word counts."""
        self.delete(info.uid)
        node_name = node_name or info.pod.status.nominated_node_name
        if node_name:
            self._node_of[info.uid] = node_name
            self._by_node.setdefault(node_name, []).append(info)

    def delete(self, uid: str) -> None:
        """The pod is nominated nowhere."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        left = [info for info in self._by_node[node_name] if info.uid != uid]
        if left:
            self._by_node[node_name] = left
        else:
            del self._by_node[node_name]

    def update(self, old: Pod, info: PodInfo) -> None:
        """The pod object changed. A nomination known only here outlives an update that says nothing about it."""
        keep = ""
        if not old.status.nominated_node_name and not info.pod.status.nominated_node_name:
            keep = self._node_of.get(info.uid, "")
        self.add(info, keep)

    def node_of(self, uid: str) -> str:
        """The node a pod is nominated to, "" for none."""
        return self._node_of.get(uid, "")

    def nominated_pods_for_node(self, node_name: str) -> Sequence[PodInfo]:
        """The pods nominated to a node."""
        return self._by_node.get(node_name, ())

    def nominated_nodes(self) -> Mapping[str, Sequence[PodInfo]]:
        """node name -> pods nominated to it."""
        return self._by_node
