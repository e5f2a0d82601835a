"""The rules for the typed arguments of built-in plugins. Called by `validation` only, with defaults filled in."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from config.defaults import binding_conditions
from config.feature_gates import FeatureGates
from config.names import label_value_fault, qualified_name_fault
from config.problems import Finding, Path, duplicate, forbidden, invalid, required, unsupported
from config.types import (
    CoschedulingArgs,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    GangSchedulingArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from kube.api.core import NodeSelectorRequirement, NodeSelectorTerm, TopologySpreadConstraint

STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_OPERATORS = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")


def validate_args(args: Any, path: Path, gates: FeatureGates) -> Iterator[Finding]:
    """Yield what is wrong with one plugin's typed arguments; the plain mapping of a foreign plugin passes."""
    rules: Callable[[Any, Path], Iterator[Finding]] | None = _RULES.get(type(args))
    if rules is not None:
        yield from rules(args, path)
    elif isinstance(args, VolumeBindingArgs):
        yield from _volume_binding(args, path, gates)
    elif isinstance(args, DynamicResourcesArgs):
        yield from _dynamic_resources(args, path, gates)


def in_range(value: int, low: int, high: int, path: Path) -> Iterator[Finding]:
    """Yield a finding when the value lies outside low..high."""
    if not low <= value <= high:
        yield invalid(path, value, f"must be in {low}..{high}")


def _default_preemption(args: DefaultPreemptionArgs, path: Path) -> Iterator[Finding]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    yield from in_range(percentage, 0, 100, (*path, "minCandidateNodesPercentage"))
    if absolute < 0:
        yield invalid((*path, "minCandidateNodesAbsolute"), absolute, "must be 0 or more")
    if percentage == 0 and absolute == 0:
        why = "cannot be 0 together with minCandidateNodesAbsolute"
        yield invalid((*path, "minCandidateNodesPercentage"), percentage, why)


def _inter_pod_affinity(args: InterPodAffinityArgs, path: Path) -> Iterator[Finding]:
    yield from in_range(args.hard_pod_affinity_weight, 0, 100, (*path, "hardPodAffinityWeight"))


def _gang_scheduling(args: GangSchedulingArgs, path: Path) -> Iterator[Finding]:
    yield from in_range(args.max_orders, 1, 4, (*path, "maxOrders"))


def _coscheduling(args: CoschedulingArgs, path: Path) -> Iterator[Finding]:
    yield from in_range(args.pod_group_reject_percentage, 0, 100, (*path, "podGroupRejectPercentage"))
    for name, value in (
        ("permitWaitingTimeSeconds", args.permit_waiting_time_seconds),
        ("podGroupBackoffSeconds", args.pod_group_backoff_seconds),
    ):
        if value < 0:
            yield invalid((*path, name), value, "must be 0 or more")


def _node_affinity(args: NodeAffinityArgs, path: Path) -> Iterator[Finding]:
    if args.added_affinity is None:
        return
    path = (*path, "addedAffinity")
    selector = args.added_affinity.required_during_scheduling_ignored_during_execution
    if selector is not None:
        terms_path = (*path, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
        if not selector.node_selector_terms:
            yield required(terms_path, "at least one term")
        for index, term in enumerate(selector.node_selector_terms):
            yield from _term(term, (*terms_path, index))
    preferred_path = (*path, "preferredDuringSchedulingIgnoredDuringExecution")
    for index, preferred in enumerate(args.added_affinity.preferred_during_scheduling_ignored_during_execution):
        yield from in_range(preferred.weight, 1, 100, (*preferred_path, index, "weight"))
        yield from _term(preferred.preference, (*preferred_path, index, "preference"))


def _term(term: NodeSelectorTerm, path: Path) -> Iterator[Finding]:
    for index, requirement in enumerate(term.match_expressions):
        yield from _expression(requirement, (*path, "matchExpressions", index))
    for index, requirement in enumerate(term.match_fields):
        yield from _field(requirement, (*path, "matchFields", index))


def _expression(requirement: NodeSelectorRequirement, path: Path) -> Iterator[Finding]:
    fault = qualified_name_fault(requirement.key)
    if fault:
        yield invalid((*path, "key"), requirement.key, fault)
    values = requirement.values
    match requirement.operator:
        case "In" | "NotIn" if not values:
            yield required((*path, "values"), f"at least one value with operator {requirement.operator}")
        case "Exists" | "DoesNotExist" if values:
            yield forbidden((*path, "values"), f"no values with operator {requirement.operator}")
        case "Gt" | "Lt" if len(values) != 1 or not re.fullmatch(r"[-+]?\d+", values[0]):
            yield required((*path, "values"), f"exactly one whole number with operator {requirement.operator}")
        case operator if operator not in _OPERATORS:
            yield unsupported((*path, "operator"), operator, _OPERATORS)
        case _:
            for index, value in enumerate(values):
                if fault := label_value_fault(value):
                    yield invalid((*path, "values", index), value, fault)


def _field(requirement: NodeSelectorRequirement, path: Path) -> Iterator[Finding]:
    if requirement.key != "metadata.name":
        yield unsupported((*path, "key"), requirement.key, ["metadata.name"])
    if requirement.operator not in {"In", "NotIn"}:
        yield unsupported((*path, "operator"), requirement.operator, ["In", "NotIn"])
    if len(requirement.values) != 1:
        yield required((*path, "values"), "exactly one node name")


def _node_resources_fit(args: NodeResourcesFitArgs, path: Path) -> Iterator[Finding]:
    for index, name in enumerate(args.ignored_resources):
        if fault := qualified_name_fault(name):
            yield invalid((*path, "ignoredResources", index), name, fault)
    for index, group in enumerate(args.ignored_resource_groups):
        fault = "must not contain '/'" if "/" in group else qualified_name_fault(group)
        if fault:
            yield invalid((*path, "ignoredResourceGroups", index), group, fault)
    strategy, path = args.scoring_strategy, (*path, "scoringStrategy")
    if strategy.type not in STRATEGIES:
        yield unsupported((*path, "type"), strategy.type, STRATEGIES)
    for index, resource in enumerate(strategy.resources):
        yield from _resource(resource, (*path, "resources", index))
        yield from in_range(resource.weight, 1, 100, (*path, "resources", index, "weight"))
    ratio_path = (*path, "requestedToCapacityRatio")
    if strategy.requested_to_capacity_ratio is not None:
        yield from _shape(strategy.requested_to_capacity_ratio.shape, (*ratio_path, "shape"))
    elif strategy.type == "RequestedToCapacityRatio":
        yield required(ratio_path, "a shape for the strategy RequestedToCapacityRatio")


def _balanced_allocation(args: NodeResourcesBalancedAllocationArgs, path: Path) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        yield from _resource(resource, (*path, "resources", index))
        if resource.weight != 1:
            yield invalid((*path, "resources", index, "weight"), resource.weight, "must be 1")
        if resource.name in seen:
            yield duplicate((*path, "resources", index, "name"), resource.name)
        seen.add(resource.name)


def _resource(resource: ResourceSpec, path: Path) -> Iterator[Finding]:
    if not resource.name:
        yield required((*path, "name"), "the name of a resource")


def _shape(shape: tuple[UtilizationShapePoint, ...], path: Path) -> Iterator[Finding]:
    if not shape:
        yield required(path, "at least one point")
    before = None
    for index, point in enumerate(shape):
        yield from in_range(point.utilization, 0, 100, (*path, index, "utilization"))
        yield from in_range(point.score, 0, 10, (*path, index, "score"))
        if before is not None and point.utilization <= before:
            yield invalid((*path, index, "utilization"), point.utilization, "must be greater than the point before")
        before = point.utilization


def _pod_topology_spread(args: PodTopologySpreadArgs, path: Path) -> Iterator[Finding]:
    constraints_path = (*path, "defaultConstraints")
    if args.defaulting_type not in {"System", "List"}:
        yield unsupported((*path, "defaultingType"), args.defaulting_type, ["System", "List"])
    if args.defaulting_type == "System" and args.default_constraints:
        yield forbidden(constraints_path, "must be empty with defaultingType System; expected defaultingType: List")
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        yield from _constraint(constraint, (*constraints_path, index))
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            yield duplicate((*constraints_path, index), f"{{{pair[0]}, {pair[1]}}}")
        seen.add(pair)


def _constraint(constraint: TopologySpreadConstraint, path: Path) -> Iterator[Finding]:
    if constraint.max_skew <= 0:
        yield invalid((*path, "maxSkew"), constraint.max_skew, "must be greater than 0")
    if not constraint.topology_key:
        yield required((*path, "topologyKey"), "a node label's key")
    elif fault := qualified_name_fault(constraint.topology_key):
        yield invalid((*path, "topologyKey"), constraint.topology_key, fault)
    if not constraint.when_unsatisfiable:
        yield required((*path, "whenUnsatisfiable"), f"one of {', '.join(_ACTIONS)}")
    elif constraint.when_unsatisfiable not in _ACTIONS:
        yield unsupported((*path, "whenUnsatisfiable"), constraint.when_unsatisfiable, _ACTIONS)
    if constraint.label_selector is not None:
        yield forbidden((*path, "labelSelector"), "a default constraint takes its selector from the pod's owners")
    for name, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        if policy is not None and policy not in _POLICIES:
            yield unsupported((*path, name), policy, _POLICIES)


def _volume_binding(args: VolumeBindingArgs, path: Path, gates: FeatureGates) -> Iterator[Finding]:
    if args.bind_timeout_seconds < 0:
        yield invalid((*path, "bindTimeoutSeconds"), args.bind_timeout_seconds, "must be 0 or more")
    if not args.shape:
        return
    if gates.enabled("StorageCapacityScoring"):
        yield from _shape(args.shape, (*path, "shape"))
    else:
        yield forbidden((*path, "shape"), "needs the feature gate StorageCapacityScoring")


def _dynamic_resources(args: DynamicResourcesArgs, path: Path, gates: FeatureGates) -> Iterator[Finding]:
    filter_path, binding_path = (*path, "filterTimeout"), (*path, "bindingTimeout")
    if args.filter_timeout is not None:
        if not gates.enabled("DRASchedulerFilterTimeout"):
            yield forbidden(filter_path, "needs the feature gate DRASchedulerFilterTimeout")
        elif args.filter_timeout.nanoseconds < 0:
            yield invalid(filter_path, args.filter_timeout, "must be 0 or more")
    if args.binding_timeout is not None:
        if not binding_conditions(gates):
            needed = "DRADeviceBindingConditions and DRAResourceClaimDeviceStatus"
            yield forbidden(binding_path, f"needs the feature gates {needed}")
        elif args.binding_timeout.seconds < 1:
            yield invalid(binding_path, args.binding_timeout, "must be 1s or more")


_RULES: dict[type, Callable[[Any, Path], Iterator[Finding]]] = {
    CoschedulingArgs: _coscheduling,
    DefaultPreemptionArgs: _default_preemption,
    GangSchedulingArgs: _gang_scheduling,
    InterPodAffinityArgs: _inter_pod_affinity,
    NodeAffinityArgs: _node_affinity,
    NodeResourcesFitArgs: _node_resources_fit,
    NodeResourcesBalancedAllocationArgs: _balanced_allocation,
    PodTopologySpreadArgs: _pod_topology_spread,
}
