"""Changes: the smallest change of a pod (or a node) that answers one refusal.

A change is only proposed here; `nearest` asks the engine about the changed pod before anybody is told. Pure functions
of the question and the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from kube.api.core import (
    Affinity,
    Container,
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    ResourceRequirements,
    Toleration,
)
from kube.api.node_affinity import match_expression, match_field, required_node_selector
from plugins.inter_pod_affinity.filtering import AFFINITY, ANTI_AFFINITY
from plugins.node_resources_fit import insufficient
from plugins.pod_topology_spread.filtering import MISSING_KEY, FilterState
from podium.explain.amounts import amount, conjoined, resource_name
from podium.explain.causes import first_untolerated, taint_text
from podium.explain.label_causes import requirement_text
from podium.explain.pod_causes import matching_pods, overdraw, same, topology_text
from podium.explain.pod_causes import term_text as pod_term_text
from podium.explain.view import View
from scheduler.framework.runtime import Feasibility
from scheduler.framework.status import Status
from scheduler.snapshot.node_info import NodeInfo, ports_conflict
from scheduler.snapshot.pod_info import AffinityTerm

#: taints that say what is wrong with a node: nobody should tolerate them to get a pod placed
_CONDITION_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
#: the taint that comes with cordoning
CORDONED = "node.kubernetes.io/unschedulable"
#: a request is not cut by more than half: that would be another pod
_LEAST_SHARE = 0.5
_MEBI = 2**20

replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class Fix:
    """A changed pod or a changed node, and how one says it."""

    kind: str
    text: str
    pod: Pod | None = None
    node: Node | None = None
    #: how much of the pod it gives up: 0 nothing, 1 everything; orders changes, and nothing else
    cost: float = 0.35


Propose = Callable[[View, Feasibility, Status, NodeInfo], "Fix | None"]


def propose(view: View, found: Feasibility, status: Status, node: NodeInfo) -> Fix | None:
    """The change that answers this refusal of this node, None where there is no sensible one."""
    propose_for = _PROPOSE.get(status.plugin)
    return propose_for(view, found, status, node) if propose_for is not None else None


# --- resources ------------------------------------------------------------------------------------------------------


def _smaller_requests(view: View, found: Feasibility, status: Status, node: NodeInfo) -> Fix | None:
    requests = found.state.pod_info.shape.requests
    targets: dict[str, int] = {}
    for reason in status.reasons:
        resource = reason.removeprefix(insufficient(""))
        if resource == reason or resource not in requests:
            return None
        free = node.allocatable.get(resource, 0) - node.requested.get(resource, 0)
        if resource != "cpu" and free > _MEBI:
            free -= free % _MEBI
        if free < 1 or free < requests[resource] * _LEAST_SHARE:
            return None
        targets[resource] = free
    texts = [
        f"{amount(name, target)} {resource_name(name)} instead of {amount(name, requests[name])}"
        for name, target in targets.items()
    ]
    cut = max(1 - target / requests[name] for name, target in targets.items())
    pod = with_requests(found.state.pod_info.pod, targets)
    return Fix("request", f"request {conjoined(texts)}", pod=pod, cost=cut)


def with_requests(pod: Pod, targets: Mapping[str, int]) -> Pod:
    """The pod with these amounts in all: the first container has them, nobody else asks for any."""
    spec = pod.spec
    first = {name: amount_exact(name, target) for name, target in targets.items()}
    nothing = dict.fromkeys(targets, "0")
    containers = [_container(c, first if i == 0 else nothing) for i, c in enumerate(spec.containers)]
    resources = spec.resources
    if resources is not None:
        resources = replace(resources, requests=_without(resources.requests, targets))
    return replace(
        pod,
        spec=replace(
            spec,
            containers=tuple(containers),
            init_containers=tuple(_container(c, nothing) for c in spec.init_containers),
            overhead=_without(spec.overhead, targets),
            resources=resources,
        ),
    )


def amount_exact(resource: str, number: int) -> str:
    """As a quantity, nothing rounded."""
    return f"{number}m" if resource == "cpu" else str(number)


def _container(container: Container, amounts: Mapping[str, str]) -> Container:
    requests = {**container.resources.requests, **amounts}
    return replace(container, resources=ResourceRequirements(requests=requests, claims=container.resources.claims))


def _without(amounts: Mapping[str, str], names: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in amounts.items() if name not in names}


# --- nodes that are closed --------------------------------------------------------------------------------------------


def _toleration(view: View, found: Feasibility, status: Status, node: NodeInfo) -> Fix | None:
    if node.node is None:
        return None
    taint = first_untolerated(view, found, node.node.spec.taints)
    if taint is None:
        return None
    if taint.key == CORDONED:
        return _uncordoned(view, found, status, node)
    if taint.key.startswith(_CONDITION_TAINTS):
        left = tuple(each for each in node.node.spec.taints if each != taint)
        text = f"mend {node.name} (taint {taint_text(taint)})"
        return Fix("node", text, node=replace(node.node, spec=replace(node.node.spec, taints=left)))
    pod = found.state.pod_info.pod
    toleration = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
    changed = replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, toleration)))
    return Fix("toleration", f"tolerate {taint_text(taint)}", pod=changed, cost=0.3)


def _uncordoned(view: View, found: Feasibility, status: Status, node: NodeInfo) -> Fix | None:
    if node.node is None:
        return None
    spec = node.node.spec
    taints = tuple(taint for taint in spec.taints if taint.key != CORDONED)
    changed = replace(node.node, spec=replace(spec, unschedulable=False, taints=taints))
    return Fix("node", f"uncordon {node.name}", node=changed)


# --- labels -----------------------------------------------------------------------------------------------------------


def _node_affinity(view: View, found: Feasibility, status: Status, node: NodeInfo) -> Fix | None:
    """Drop what the node does not match; of several terms, from the one of which it misses least."""
    pod = found.state.pod_info.pod
    wrong = {key: value for key, value in pod.spec.node_selector.items() if node.labels.get(key) != value}
    texts = [f"nodeSelector {key}={value}" for key, value in wrong.items()]
    kept = {key: value for key, value in pod.spec.node_selector.items() if key not in wrong}
    changed = replace(pod, spec=replace(pod.spec, node_selector=kept))
    required = required_node_selector(pod)
    if required is not None:
        options = [_loosened(term, node) for term in required.node_selector_terms]
        if options and all(dropped for _, dropped in options):
            term, dropped = min(options, key=lambda option: len(option[1]))
            texts.append(f"node affinity {' and '.join(dropped)}")
            changed = _with_node_terms(changed, term)
    return Fix("nodeSelector" if wrong else "nodeAffinity", f"drop {conjoined(texts)}", pod=changed) if texts else None


def _loosened(term: NodeSelectorTerm, node: NodeInfo) -> tuple[NodeSelectorTerm, list[str]]:
    """The term without what the node does not match, and that in words."""
    failing = [each for each in term.match_expressions if not match_expression(each, node.labels)]
    failing_fields = [each for each in term.match_fields if not match_field(each, node.name)]
    left = NodeSelectorTerm(
        match_expressions=tuple(each for each in term.match_expressions if each not in failing),
        match_fields=tuple(each for each in term.match_fields if each not in failing_fields),
    )
    return left, [requirement_text(each) for each in (*failing, *failing_fields)]


def _with_node_terms(pod: Pod, term: NodeSelectorTerm) -> Pod:
    """An empty term would match nothing, so then the required part goes altogether."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return pod
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        empty = not term.match_expressions and not term.match_fields
        required = None if empty else replace(required, node_selector_terms=(term,))
    node = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=required)
    return _with_affinity(pod, replace(affinity, node_affinity=node))


def _with_affinity(pod: Pod, affinity: Affinity) -> Pod:
    return replace(pod, spec=replace(pod.spec, affinity=affinity))


# --- other pods -------------------------------------------------------------------------------------------------------


def _host_port(view: View, found: Feasibility, status: Status, node: NodeInfo) -> Fix | None:
    taken = [each for each in found.state.pod_info.shape.host_ports if ports_conflict(node.used_ports, *each)]
    if not taken:
        return None
    numbers = {(protocol, port) for protocol, _, port in taken}
    pod = found.state.pod_info.pod

    def freed(container: Container) -> Container:
        ports = tuple(
            replace(port, host_port=0) if (port.protocol or "TCP", port.host_port) in numbers else port
            for port in container.ports
        )
        return replace(container, ports=ports)

    spec = replace(
        pod.spec,
        containers=tuple(map(freed, pod.spec.containers)),
        init_containers=tuple(map(freed, pod.spec.init_containers)),
    )
    texts = [f"{port}/{protocol}" for protocol, port in sorted(numbers)]
    return Fix("hostPort", f"use another host port than {conjoined(texts)}", pod=replace(pod, spec=spec))


def _pod_affinity(view: View, found: Feasibility, status: Status, node: NodeInfo) -> Fix | None:
    """Drop the terms that this node's domains do not meet. Other pods' anti-affinity is not ours to drop."""
    pod, shape = found.state.pod_info.pod, found.state.pod_info.shape
    affinity = pod.spec.affinity
    if affinity is None:
        return None
    if status.message == AFFINITY.message and affinity.pod_affinity is not None:
        left, dropped = _split(view, affinity.pod_affinity, shape.required_affinity, node, wrong=False)
        rules = replace(affinity.pod_affinity, required_during_scheduling_ignored_during_execution=left)
        changed, kind, text = replace(affinity, pod_affinity=rules), "podAffinity", "drop the pod affinity with"
    elif status.message == ANTI_AFFINITY.message and affinity.pod_anti_affinity is not None:
        left, dropped = _split(view, affinity.pod_anti_affinity, shape.required_anti_affinity, node, wrong=True)
        against = replace(affinity.pod_anti_affinity, required_during_scheduling_ignored_during_execution=left)
        changed = replace(affinity, pod_anti_affinity=against)
        kind, text = "podAntiAffinity", "drop the pod anti-affinity to"
    else:
        return None
    return Fix(kind, f"{text} {conjoined(dropped)}", pod=_with_affinity(pod, changed)) if dropped else None


def _split(
    view: View, rules: PodAffinity | PodAntiAffinity, terms: Sequence[AffinityTerm], node: NodeInfo, *, wrong: bool
) -> tuple[tuple[PodAffinityTerm, ...], list[str]]:
    """The terms that stay, and those that go in words. `wrong`: what it means that a term's pod is near."""
    goes = [_is_met(view, term, node) is wrong for term in terms]
    original = rules.required_during_scheduling_ignored_during_execution
    left = tuple(term for term, out in zip(original, goes, strict=True) if not out)
    texts = [f"{pod_term_text(term)} {same(term.topology_key)}" for term, out in zip(terms, goes, strict=True) if out]
    return left, texts


def _is_met(view: View, term: AffinityTerm, node: NodeInfo) -> bool:
    """Whether a pod that the term means is in the node's domain."""
    value = node.labels.get(term.topology_key)
    if value is None:
        return False
    infos = (view.snapshot.infos[row] for row, _ in matching_pods(view, term))
    return any(info is not None and info.labels.get(term.topology_key) == value for info in infos)


def _spread(view: View, found: Feasibility, status: Status, node: NodeInfo) -> Fix | None:
    """Raise maxSkew by what is missing, or drop constraints by a label that the node lacks."""
    state: FilterState | None = found.state.read("PodTopologySpread")
    pod = found.state.pod_info.pod
    own = [c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]
    if state is None or len(own) != len(state.counts):
        return None
    if status.message == MISSING_KEY.message:
        dropped = [c for c in own if c.topology_key not in node.labels]
        left = tuple(c for c in pod.spec.topology_spread_constraints if c not in dropped)
        text = f"drop the spreading by {conjoined([c.topology_key for c in dropped])}"
        return Fix("spread", text, pod=replace(pod, spec=replace(pod.spec, topology_spread_constraints=left)))
    wider, texts = list(pod.spec.topology_spread_constraints), []
    for constraint, counts in zip(own, state.counts, strict=True):
        key, limit = constraint.topology_key, constraint.max_skew
        code = view.snapshot.label(key).values.code_of[node.labels[key]]
        over = int(overdraw(counts, np.array([code], np.intp))[0])
        if over > 0:
            wider[wider.index(constraint)] = replace(constraint, max_skew=limit + over)
            texts.append(f"maxSkew {limit + over} instead of {limit} by {topology_text(key)}")
    if not texts:
        return None
    changed = replace(pod, spec=replace(pod.spec, topology_spread_constraints=tuple(wider)))
    return Fix("spread", f"allow {conjoined(texts)}", pod=changed)


_PROPOSE: dict[str, Propose] = {
    "NodeResourcesFit": _smaller_requests,
    "TaintToleration": _toleration,
    "NodeUnschedulable": _uncordoned,
    "NodeAffinity": _node_affinity,
    "NodePorts": _host_port,
    "InterPodAffinity": _pod_affinity,
    "PodTopologySpread": _spread,
}
