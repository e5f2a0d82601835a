"""NodeInfo: one node and the pods on it, as exact Python integers.

This is the truth that the snapshot's columns are copied from, and what one-node plugins look at.

Owner: SchedulerCache, which alone adds and removes pods and replaces the node. Dry runs (nominated pods,
preemption) work on a `clone()`. Amounts: cpu in milliCPU, everything else in base units (bytes, counts).
"""

from __future__ import annotations

from collections.abc import Mapping

from kube.api import quantity
from kube.api.core import Node
from scheduler.snapshot.pod_info import PodInfo

NO_LABELS: Mapping[str, str] = {}


def allocatable_of(node: Node) -> dict[str, int]:
    """Allocatable amounts by resource: cpu in milliCPU, the rest in base units, both rounded up."""
    return {
        name: quantity.milli_value(amount) if name == "cpu" else quantity.value(amount)
        for name, amount in node.status.allocatable.items()
    }


def ports_conflict(used: Mapping[tuple[str, int], Mapping[str, int]], protocol: str, ip: str, port: int) -> bool:
    """Whether a wanted host port clashes: same protocol and port, and the same IP or either one 0.0.0.0 (facts 2.3)."""
    by_ip = used.get((protocol, port))
    if not by_ip:
        return False
    return ip == "0.0.0.0" or ip in by_ip or "0.0.0.0" in by_ip


class NodeInfo:
    """One node, its pods and their sums."""

    __slots__ = (
        "allocatable",
        "generation",
        "name",
        "node",
        "non_zero_cpu",
        "non_zero_memory",
        "pods",
        "pods_with_affinity",
        "pods_with_required_anti_affinity",
        "pvc_ref_counts",
        "requested",
        "row",
        "used_ports",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        #: None for a ghost: the node is gone but pods on it are not
        self.node: Node | None = None
        #: the row in the snapshot, -1 while it has none
        self.row = -1
        self.generation = 0
        self.allocatable: dict[str, int] = {}
        #: sums over the pods; "pods" is their number
        self.requested: dict[str, int] = {"pods": 0}
        self.non_zero_cpu = 0
        self.non_zero_memory = 0
        self.pods: dict[str, PodInfo] = {}
        self.pods_with_affinity: dict[str, PodInfo] = {}
        self.pods_with_required_anti_affinity: dict[str, PodInfo] = {}
        #: (protocol, port) -> ip -> number of pods
        self.used_ports: dict[tuple[str, int], dict[str, int]] = {}
        #: "namespace/claim" -> number of pods on this node that use it
        self.pvc_ref_counts: dict[str, int] = {}

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the node."""
        return self.node.metadata.labels if self.node is not None else NO_LABELS

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations of the node."""
        return self.node.metadata.annotations if self.node is not None else NO_LABELS

    def set_node(self, node: Node) -> None:
        """Put the node object in, new or changed."""
        self.node = node
        self.allocatable = allocatable_of(node)

    def add_pod(self, pod: PodInfo) -> None:
        """Count a pod on this node. The caller knows it was not counted before."""
        self.pods[pod.uid] = pod
        if pod.shape.has_affinity:
            self.pods_with_affinity[pod.uid] = pod
        if pod.shape.required_anti_affinity:
            self.pods_with_required_anti_affinity[pod.uid] = pod
        self._count(pod, 1)

    def replace_pod(self, pod: PodInfo) -> None:
        """Put a newer object in place of a pod that counts the same."""
        for pods in (self.pods, self.pods_with_affinity, self.pods_with_required_anti_affinity):
            if pod.uid in pods:
                pods[pod.uid] = pod

    def remove_pod(self, pod: PodInfo) -> None:
        """Take a pod off this node; raises KeyError if it is not here."""
        counted = self.pods.pop(pod.uid)
        self.pods_with_affinity.pop(pod.uid, None)
        self.pods_with_required_anti_affinity.pop(pod.uid, None)
        self._count(counted, -1)

    def _count(self, pod: PodInfo, sign: int) -> None:
        requested = self.requested
        requested["pods"] += sign
        for name, amount in pod.requests.items():
            left = requested.get(name, 0) + sign * amount
            if left or sign > 0:
                requested[name] = left
            else:
                requested.pop(name, None)
        self.non_zero_cpu += sign * pod.non_zero_cpu
        self.non_zero_memory += sign * pod.non_zero_memory
        for protocol, ip, port in pod.shape.host_ports:
            by_ip = self.used_ports.setdefault((protocol, port), {})
            _tally(by_ip, ip, sign)
            if not by_ip:
                del self.used_ports[protocol, port]
        for claim in pod.pvc_keys:
            _tally(self.pvc_ref_counts, claim, sign)

    def clone(self) -> NodeInfo:
        """A copy for a dry run; pods may be added and removed without touching this one."""
        copy = NodeInfo(self.name)
        copy.node, copy.row, copy.generation = self.node, self.row, self.generation
        copy.allocatable = self.allocatable
        copy.requested = dict(self.requested)
        copy.non_zero_cpu, copy.non_zero_memory = self.non_zero_cpu, self.non_zero_memory
        copy.pods = dict(self.pods)
        copy.pods_with_affinity = dict(self.pods_with_affinity)
        copy.pods_with_required_anti_affinity = dict(self.pods_with_required_anti_affinity)
        copy.used_ports = {key: dict(ips) for key, ips in self.used_ports.items()}
        copy.pvc_ref_counts = dict(self.pvc_ref_counts)
        return copy

    def __repr__(self) -> str:
        return f"NodeInfo({self.name}, {len(self.pods)} pods)"


def _tally(counts: dict[str, int], key: str, sign: int) -> None:
    """Add ±1; a key whose count is 0 is gone."""
    count = counts.get(key, 0) + sign
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)
