"""The nodes that a DaemonSet serves, and the pod spec for each of them: the DaemonSet controller's part in scheduling.

Called by `simulator.load.workloads` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kube.api.codec import convert
from kube.api.core import Node, Pod, PodSpec
from kube.api.node_affinity import required_node_affinity_matches
from kube.api.tolerations import find_untolerated
from simulator.load.defaults import Body, optional

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SCHEDULING_FIELDS = ("nodeName", "nodeSelector", "affinity", "tolerations")

_NO_EXECUTE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NO_SCHEDULE = tuple(f"node.kubernetes.io/{state}" for state in ("disk-pressure", "memory-pressure", "pid-pressure"))
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_NETWORK = "node.kubernetes.io/network-unavailable"


class DaemonNodes:
    """The nodes of one load, as DaemonSets see them. Owned by that load."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = tuple(nodes)

    def specs(self, spec: Body) -> Iterator[tuple[str, Body]]:
        """(node, pod spec) for each node the daemon should run on; the spec is bound to it by a field selector."""
        tolerations = _with_daemon_tolerations(spec)
        wanted = {**{key: spec[key] for key in _SCHEDULING_FIELDS if key in spec}, "tolerations": tolerations}
        probe = Pod(spec=convert(wanted, PodSpec))
        for node in self._nodes:
            if _should_run(probe, node):
                name = node.metadata.name
                yield name, {**spec, "tolerations": tolerations, "affinity": _pinned(spec, name)}


def _should_run(pod: Pod, node: Node) -> bool:
    """Taints count, a cordoned or full node does not matter: whether the pod fits is the scheduler's question."""
    if pod.spec.node_name not in ("", node.metadata.name):
        return False
    if not required_node_affinity_matches(pod, node.metadata.labels, node.metadata.name):
        return False
    return find_untolerated(node.spec.taints, pod.spec.tolerations) is None


def _with_daemon_tolerations(spec: Body) -> list[Body]:
    own = spec.get("tolerations") or []
    added = [_tolerate(key, "NoExecute") for key in _NO_EXECUTE]
    added += [_tolerate(key, "NoSchedule") for key in (*_NO_SCHEDULE, _UNSCHEDULABLE)]
    if spec.get("hostNetwork") is True:
        added.append(_tolerate(_NETWORK, "NoSchedule"))
    return [*own, *(toleration for toleration in added if toleration not in own)]


def _tolerate(key: str, effect: str) -> Body:
    return {"key": key, "operator": "Exists", "effect": effect}


def _pinned(spec: Body, node: str) -> Body:
    """The affinity whose only required node term is the node's name; the template's own required terms are replaced."""
    affinity = optional(spec, "affinity")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    node_affinity = {**optional(affinity, "nodeAffinity"), _REQUIRED: {"nodeSelectorTerms": [term]}}
    return {**affinity, "nodeAffinity": node_affinity}
