"""Whether a pod may start on its node: the kubelet's own last look, which the scheduler's may have overtaken.

    resources (cpu, memory, storage, pods, extended) ─► OutOfcpu, OutOfmemory, OutOfpods, …
    node selector and affinity                       ─► NodeAffinity
    host ports                                       ─► NodePorts

A pod that is refused becomes Failed and is never started. Owner of an `Account`: the node's sync loop.
"""

from dataclasses import dataclass, field

from kube.api import quantity
from kube.api.codec import convert
from kube.api.core import Pod
from kube.api.node_affinity import required_node_affinity_matches
from kube.api.pod_requests import host_ports, pod_requests
from simulator.apiserver.errors import Object

PODS = "pods"
_ANY_ADDRESS = ("", "0.0.0.0", "::")
Port = tuple[str, str, int]
"""Address, protocol, port."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod is not started."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What an admitted pod takes from its node."""

    amounts: dict[str, int]
    ports: tuple[Port, ...]


@dataclass(slots=True)
class Account:
    """What is taken of one node, and by whom."""

    used: dict[str, int] = field(default_factory=dict)
    admitted: dict[str, Needs] = field(default_factory=dict)

    def take(self, uid: str, needs: Needs) -> None:
        """A pod was admitted."""
        self.admitted[uid] = needs
        for name, amount in needs.amounts.items():
            self.used[name] = self.used.get(name, 0) + amount

    def give_back(self, uid: str) -> None:
        """A pod has ended or gone; one that was never admitted has taken nothing."""
        needs = self.admitted.pop(uid, None)
        for name, amount in (needs.amounts if needs else {}).items():
            self.used[name] -= amount


def needs_of(pod: Object) -> tuple[Pod, Needs]:
    """The typed pod, and what it takes; what its devices provide is not the node's to count."""
    typed = convert(pod, Pod)
    by_devices = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    claimed = {mapping["resourceName"] for mapping in by_devices.get("requestMappings") or ()}
    requests = {name: amount for name, amount in pod_requests(typed).items() if name not in claimed}
    return typed, Needs({**requests, PODS: 1}, host_ports(typed))


def admit(pod: Pod, needs: Needs, node: Object, account: Account) -> Rejection | None:
    """Judge a pod; None admits it."""
    for name, amount in needs.amounts.items():
        capacity = _allocatable(node, name)
        used = account.used.get(name, 0)
        if amount and used + amount > capacity:
            text = f"requested: {amount}, used: {used}, capacity: {capacity}"
            return Rejection(f"OutOf{name}", f"Node didn't have enough resource: {name}, {text}")
    metadata = node["metadata"]
    if not required_node_affinity_matches(pod, metadata.get("labels") or {}, metadata["name"]):
        return Rejection("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity")
    taken = [port for other in account.admitted.values() for port in other.ports] if needs.ports else []
    if any(_clash(wanted, known) for wanted in needs.ports for known in taken):
        return Rejection("NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the pod")
    return None


def _allocatable(node: Object, name: str) -> int:
    """In thousandths for cpu, whole units else; an unknown resource there is none of."""
    text = ((node.get("status") or {}).get("allocatable") or {}).get(name, "0")
    return quantity.milli_value(text) if name == "cpu" else quantity.value(text)


def _clash(one: Port, other: Port) -> bool:
    if one[1:] != other[1:]:
        return False
    return one[0] == other[0] or one[0] in _ANY_ADDRESS or other[0] in _ANY_ADDRESS
