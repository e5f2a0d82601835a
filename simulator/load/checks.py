"""What an API server would refuse, as far as it changes a decision: quantities, operators, effects, names, ports.

Functions look at one typed object and yield `path: what is wrong`. Called by `simulator.load.cluster_objects`; they
never change anything and never look at other objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from kube.api.core import (
    Container,
    ContainerPort,
    Node,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
)
from kube.api.meta import ApiObject, LabelSelector, LabelSelectorRequirement
from kube.api.quantity import QuantityError, nanos
from kube.api.quantity_check import (
    Amounts,
    capacity_amounts,
    claim_spec_amounts,
    resource_claim_amounts,
    slice_amounts,
    status_amounts,
)
from kube.api.resource import QuantityText, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from kube.api.storage import CSIStorageCapacity

_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_TOLERATION_OPERATORS = ("", "Equal", "Exists", "Gt", "Lt")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_RULES = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check(body: ApiObject) -> Iterator[str]:
    """Everything wrong with an object, one line each."""
    if not body.metadata.name:
        yield "metadata.name: expected a name"
    specific = _BY_TYPE.get(type(body))
    if specific is not None:
        yield from specific(body)


@lru_cache(maxsize=65536, typed=True)
def _amount(text: QuantityText) -> int | None:
    """The quantity, or None for what is none; pods repeat the same few texts."""
    try:
        return nanos(text)
    except QuantityError:
        return None


def _quantities(amounts: Mapping[str, QuantityText], path: str) -> Iterator[str]:
    for name, text in amounts.items():
        amount = _amount(text)
        where = f"{path}.{name}" if path else name
        if amount is None:
            yield f'{where}: "{text}": not a quantity: expected a number with an optional suffix, such as 500m or 1.5Gi'
        elif amount < 0:
            yield f'{where}: "{text}": expected zero or more'


def _all_quantities(said: Iterable[Amounts]) -> Iterator[str]:
    for path, amounts in said:
        yield from _quantities(amounts, path)


def _one_of(value: str, allowed: tuple[str, ...], path: str) -> Iterator[str]:
    if value not in allowed:
        yield f'{path}: "{value}": expected one of {", ".join(known for known in allowed if known)}'


# --- pods --------------------------------------------------------------------------------------------------------


def _pod(pod: Pod) -> Iterator[str]:
    spec = pod.spec
    if not spec.containers:
        yield "spec.containers: expected at least one container"
    yield from _containers(spec.init_containers, "spec.initContainers")
    yield from _containers(spec.containers, "spec.containers")
    if spec.resources is not None:
        yield from _resources(spec.resources, "spec.resources")
    yield from _quantities(spec.overhead, "spec.overhead")
    yield from _all_quantities(status_amounts(pod))
    if spec.priority is not None and not -(2**31) <= spec.priority < 2**31:
        yield f"spec.priority: {spec.priority}: expected a whole number of 32 bits"
    for index, toleration in enumerate(spec.tolerations):
        yield from _toleration(toleration, f"spec.tolerations[{index}]")
    for index, constraint in enumerate(spec.topology_spread_constraints):
        yield from _spread(constraint, f"spec.topologySpreadConstraints[{index}]")
    if spec.affinity is not None:
        yield from _affinity(spec)


def _containers(containers: tuple[Container, ...], path: str) -> Iterator[str]:
    for index, container in enumerate(containers):
        yield from _resources(container.resources, f"{path}[{index}].resources")
        for number, port in enumerate(container.ports):
            yield from _port(port, f"{path}[{index}].ports[{number}]")


def _resources(resources: ResourceRequirements, path: str) -> tuple[str, ...]:
    requests, limits = resources.requests, resources.limits
    if not requests and not limits:
        return ()
    return tuple(path + wrong for wrong in _resource_problems(tuple(requests.items()), tuple(limits.items())))


@lru_cache(maxsize=65536)
def _resource_problems(requests: tuple[tuple[str, str], ...], limits: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Judged once for each distinct set: a large cluster has a few hundred."""
    upper = dict(limits)
    wrong = [*_quantities(dict(requests), ".requests"), *_quantities(upper, ".limits")]
    for name, text in requests:
        asked, limit = _amount(text), _amount(upper.get(name, text))
        if asked is not None and limit is not None and asked > limit:
            wrong.append(f'.requests.{name}: "{text}": expected no more than the limit "{upper[name]}"')
    return tuple(wrong)


def _port(port: ContainerPort, path: str) -> Iterator[str]:
    for name, number in (("containerPort", port.container_port), ("hostPort", port.host_port)):
        if not 0 <= number <= 65535:
            yield f"{path}.{name}: {number}: expected a port from 1 to 65535"
    yield from _one_of(port.protocol, _PROTOCOLS, f"{path}.protocol")


def _toleration(toleration: Toleration, path: str) -> Iterator[str]:
    yield from _one_of(toleration.operator, _TOLERATION_OPERATORS, f"{path}.operator")
    yield from _one_of(toleration.effect, ("", *_EFFECTS), f"{path}.effect")
    if not toleration.key and toleration.operator != "Exists":
        yield f"{path}.operator: expected Exists where key is empty"


def _spread(constraint: TopologySpreadConstraint, path: str) -> Iterator[str]:
    if constraint.max_skew < 1:
        yield f"{path}.maxSkew: {constraint.max_skew}: expected 1 or more"
    if not constraint.topology_key:
        yield f"{path}.topologyKey: expected a node label"
    yield from _one_of(constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway"), f"{path}.whenUnsatisfiable")
    yield from _selector(constraint.label_selector, f"{path}.labelSelector")


def _affinity(spec: PodSpec) -> Iterator[str]:
    affinity = spec.affinity
    if affinity is None:
        return
    node = affinity.node_affinity
    if node is not None:
        required = node.required_during_scheduling_ignored_during_execution
        if required is not None:
            yield from _node_terms(required.node_selector_terms, f"spec.affinity.nodeAffinity.{_NODE_RULES}")
        for index, preferred in enumerate(node.preferred_during_scheduling_ignored_during_execution):
            yield from _node_term(preferred.preference, f"spec.affinity.nodeAffinity.{_PREFERRED}[{index}].preference")
    for name, rules in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if rules is not None:
            yield from _pod_rules(rules, f"spec.affinity.{name}")


def _node_terms(terms: Iterable[NodeSelectorTerm], path: str) -> Iterator[str]:
    for index, term in enumerate(terms):
        yield from _node_term(term, f"{path}[{index}]")


def _node_term(term: NodeSelectorTerm, path: str) -> Iterator[str]:
    for name, requirements in (("matchExpressions", term.match_expressions), ("matchFields", term.match_fields)):
        for index, requirement in enumerate(requirements):
            where = f"{path}.{name}[{index}]"
            yield from _one_of(requirement.operator, _NODE_OPERATORS, f"{where}.operator")
            if requirement.operator in ("Gt", "Lt") and len(requirement.values) != 1:
                yield f"{where}.values: expected one number"
            yield from _values(requirement.operator, requirement.values, where)


def _pod_rules(rules: PodAffinity | PodAntiAffinity, path: str) -> Iterator[str]:
    for index, term in enumerate(rules.required_during_scheduling_ignored_during_execution):
        yield from _pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, preferred in enumerate(rules.preferred_during_scheduling_ignored_during_execution):
        yield from _pod_term(preferred.pod_affinity_term, f"{path}.{_PREFERRED}[{index}].podAffinityTerm")


def _pod_term(term: PodAffinityTerm, path: str) -> Iterator[str]:
    if not term.topology_key:
        yield f"{path}.topologyKey: expected a node label"
    yield from _selector(term.label_selector, f"{path}.labelSelector")
    yield from _selector(term.namespace_selector, f"{path}.namespaceSelector")


def _selector(selector: LabelSelector | None, path: str) -> Iterator[str]:
    if selector is None:
        return
    for index, requirement in enumerate(selector.match_expressions):
        yield from _label_requirement(requirement, f"{path}.matchExpressions[{index}]")


def _label_requirement(requirement: LabelSelectorRequirement, path: str) -> Iterator[str]:
    yield from _one_of(requirement.operator, _LABEL_OPERATORS, f"{path}.operator")
    yield from _values(requirement.operator, requirement.values, path)


def _values(operator: str, values: tuple[str, ...], path: str) -> Iterator[str]:
    if operator in ("In", "NotIn") and not values:
        yield f"{path}.values: expected at least one value with {operator}"
    if operator in ("Exists", "DoesNotExist") and values:
        yield f"{path}.values: expected none with {operator}"


# --- other kinds -------------------------------------------------------------------------------------------------


def _node(node: Node) -> Iterator[str]:
    yield from _quantities(node.status.allocatable, "status.allocatable")
    yield from _quantities(node.status.capacity, "status.capacity")
    for index, taint in enumerate(node.spec.taints):
        yield from _one_of(taint.effect, _EFFECTS, f"spec.taints[{index}].effect")


def _volume(volume: PersistentVolume) -> Iterator[str]:
    yield from _quantities(volume.spec.capacity, "spec.capacity")


def _claim(claim: PersistentVolumeClaim) -> Iterator[str]:
    yield from _quantities(claim.spec.resources.requests, "spec.resources.requests")


def _capacity(capacity: CSIStorageCapacity) -> Iterator[str]:
    yield from _all_quantities(capacity_amounts(capacity))


def _slice(resource_slice: ResourceSlice) -> Iterator[str]:
    yield from _all_quantities(slice_amounts(resource_slice))


def _resource_claim(claim: ResourceClaim) -> Iterator[str]:
    yield from _all_quantities(resource_claim_amounts(claim))


def _resource_claim_template(template: ResourceClaimTemplate) -> Iterator[str]:
    yield from _all_quantities(claim_spec_amounts(template.spec.spec, "spec.spec"))


_BY_TYPE: dict[type[Any], Callable[[Any], Iterator[str]]] = {
    Pod: _pod,
    Node: _node,
    PersistentVolume: _volume,
    PersistentVolumeClaim: _claim,
    CSIStorageCapacity: _capacity,
    ResourceSlice: _slice,
    ResourceClaim: _resource_claim,
    ResourceClaimTemplate: _resource_claim_template,
}
