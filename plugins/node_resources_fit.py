"""NodeResourcesFit: whether a pod's requests fit what is left on a node, and how well.

The filter counts pods and every requested resource. The score follows the configured strategy: LeastAllocated
spreads, MostAllocated packs, RequestedToCapacityRatio follows a given shape (`helpers.allocation`).

Called by the framework; it never looks at real use, only at requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from config.types import NodeResourcesFitArgs
from kube.api import pod_requests
from kube.api.core import Node, Pod
from plugins.helpers import amounts
from plugins.helpers.allocation import NATIVE, Strategy, Wanted
from plugins.helpers.hints import had_a_place, is_same_pod, queue_if
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    FilterPlugin,
    PlacementScorePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from scheduler.framework.pod_groups import Group
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import Code, Status
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo, allocatable_of
from scheduler.snapshot.snapshot import Nodes

SCORE_STATE = "NodeResourcesFit/score"
TOO_MANY_PODS = "Too many pods"
#: under this key a plugin for devices leaves the extended resources that device classes back: where a node offers none
#: of such a resource itself, its devices decide
DEVICE_BACKED = "DynamicResources/extended"
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"

#: (resource, amount > 0), in the order in which reasons are given
Requests = tuple[tuple[str, int], ...]


class NodeResourcesFit(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, PlacementScorePlugin):
    """Refuse nodes without room for the pod; score the room."""

    name = "NodeResourcesFit"
    scope = Scope.ROW
    fewer_pods_help = True
    bounded = True

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        args = args or NodeResourcesFitArgs()
        self.ignored_resources = frozenset(args.ignored_resources)
        self.ignored_groups = frozenset(args.ignored_resource_groups)
        self.strategy = Strategy(args.scoring_strategy)
        self.events = (
            on(EventResource.POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN, hint=self.room_was_freed),
            on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE, hint=self.room_was_added),
        )
        if handle.gate("DRAExtendedResource"):
            devices = on(EventResource.DEVICE_CLASS, Action.ADD | Action.UPDATE, hint=self.device_class_came)
            self.events = (*self.events, devices)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """A pod that is to be scheduled is sized by its spec."""
        state.write(self.name, self._counted(state.pod_info.shape.requests))
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask:
        """Room for one more pod and for each of its requests."""
        device_backed = _device_backed(state)
        mask: Mask = nodes.free("pods") >= 1
        for resource, amount in self._requests(state):
            mask &= _enough(nodes, resource, amount, device_backed)
        return mask

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same rule for one node."""
        allocatable, requested = node.allocatable, node.requested
        reasons = [TOO_MANY_PODS] if requested["pods"] + 1 > allocatable.get("pods", 0) else []
        hopeless = False
        for resource, amount in self._requests(state):
            offered = allocatable.get(resource, 0)
            if not offered and resource in _device_backed(state):
                continue
            if amount > offered - requested.get(resource, 0):
                reasons.append(insufficient(resource))
                hopeless = hopeless or amount > offered
        return self._refusal(reasons, hopeless) if reasons else None

    def room_needed(self, state: CycleState) -> Mapping[str, int] | None:
        """The requests and a place; where devices stand in for a resource, amounts do not tell all."""
        requests = self._requests(state)
        if any(resource in _device_backed(state) for resource, _ in requests):
            return None
        return {"pods": 1, **dict(requests)}

    def refusals(self, state: CycleState, pod: Pod, nodes: Nodes) -> Refusals:
        """Nodes that lack the same share a status: one bit per reason, and one for requests above all there is."""
        lacking = nodes.free("pods") < 1
        hopeless = nodes.none
        reasons = [TOO_MANY_PODS]
        bits = lacking.astype(np.int64)
        for i, (resource, amount) in enumerate(self._requests(state), 1):
            lacking = ~_enough(nodes, resource, amount, _device_backed(state))
            hopeless |= lacking & (amounts.allocatable(nodes, resource) < amount)
            bits |= lacking.astype(np.int64) << i
            reasons.append(insufficient(resource))
        kinds, which = np.unique(2 * bits + hopeless, return_inverse=True)
        return Refusals(
            tuple(self._refusal(_named(kind >> 1, reasons), bool(kind & 1)) for kind in kinds.tolist()), which
        )

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Every pod is scored: nothing to skip."""
        state.write(SCORE_STATE, self.strategy.wanted(state.pod_info.shape))
        return None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector:
        """What the strategy says of the node with the pod on it."""
        return self.strategy.score(self._wanted(state), nodes)

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The same formula for one node."""
        return self.strategy.score_node(self._wanted(state), node)

    def _wanted(self, state: CycleState) -> Wanted:
        """A profile may have the score without PreScore."""
        wanted: Wanted | None = state.data.get(SCORE_STATE)
        return self.strategy.wanted(state.pod_info.shape) if wanted is None else wanted

    def score_placement(self, group: Group, nodes: Nodes) -> float:
        """The fuller the nodes are with the group on them, the better: another group may need the empty ones."""
        return self.strategy.utilisation(nodes)

    # --- queueing hints -----------------------------------------------------------------------------------

    def room_was_freed(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """A pod that had a place is gone, the pod itself shrank, or an assigned pod did in something it requests."""
        if new is None:
            return queue_if(old is not None and had_a_place(old))
        if is_same_pod(pod, new):
            return QueueingHint.QUEUE
        if not new.spec.node_name or old is None:
            return QueueingHint.SKIP
        before, after = (pod_requests.pod_requests(each, assigned=True) for each in (old, new))
        wanted = self._counted(pod_requests.pod_requests(pod))
        return queue_if(any(before.get(resource, 0) > after.get(resource, 0) for resource, _ in wanted))

    def room_was_added(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """The node, empty, could take the pod, and it is new or offers more of something the pod needs."""
        if new is None:
            return QueueingHint.SKIP
        wanted = self._counted(pod_requests.pod_requests(pod))
        after = allocatable_of(new)
        by_devices = {r for r, _ in wanted if not after.get(r, 0) and self._is_device_backed(r)}
        if after.get("pods", 0) < 1 or any(after.get(r, 0) < n for r, n in wanted if r not in by_devices):
            return QueueingHint.SKIP
        if old is None or by_devices:
            return QueueingHint.QUEUE
        before = allocatable_of(old)
        return queue_if(any(after.get(r, 0) > before.get(r, 0) for r in ("pods", *(r for r, _ in wanted))))

    def device_class_came(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        """A device class now backs an extended resource that the pod requests."""
        if new is None or (old is not None and old.spec.extended_resource_name == new.spec.extended_resource_name):
            return QueueingHint.SKIP
        names = {new.spec.extended_resource_name}
        if old is None:
            names.add(DEVICE_CLASS_PREFIX + new.metadata.name)
        return queue_if(not names.isdisjoint(pod_requests.pod_requests(pod)))

    # --- helpers ------------------------------------------------------------------------------------------

    def _requests(self, state: CycleState) -> Requests:
        requests: Requests = state.data[self.name]
        return requests

    def _counted(self, requests: Mapping[str, int]) -> Requests:
        """The requests that a node must have room for; reasons name native resources first, others by name."""
        order = [name for name in NATIVE if name in requests]
        if len(order) < len(requests):
            order += sorted(requests.keys() - set(NATIVE))
        counted = [(name, requests[name]) for name in order if requests[name] > 0]
        if self.ignored_resources or self.ignored_groups:
            counted = [(name, amount) for name, amount in counted if not self._is_ignored(name)]
        return tuple(counted)

    def _is_ignored(self, resource: str) -> bool:
        """Only extended resources can be ignored."""
        return pod_requests.is_extended_resource(resource) and (
            resource in self.ignored_resources or resource.partition("/")[0] in self.ignored_groups
        )

    def _is_device_backed(self, resource: str) -> bool:
        """Hints have no cycle state, so they ask the device classes.

        The names that classes give by themselves are in Kubernetes' own domain: no extended resources by name.
        """
        if not self.handle.gate("DRAExtendedResource") or resource in NATIVE:
            return False
        return any(
            resource in (device_class.spec.extended_resource_name, DEVICE_CLASS_PREFIX + device_class.metadata.name)
            for device_class in self.handle.listers("DeviceClass").list()
        )

    def _refusal(self, reasons: list[str], hopeless: bool) -> Status:
        """Where a request alone is more than the node has, evicting pods would not help."""
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
        return Status(code, tuple(reasons), self.name)


def insufficient(resource: str) -> str:
    """The reason of a resource."""
    return f"Insufficient {resource}"


def _enough(nodes: Nodes, resource: str, amount: int, device_backed: Collection[str]) -> Mask:
    enough: Mask = amounts.free(nodes, resource) >= amount
    if resource in device_backed:
        enough = enough | (amounts.allocatable(nodes, resource) == 0)
    return enough


def _device_backed(state: CycleState) -> Collection[str]:
    names: Collection[str] | None = state.read(DEVICE_BACKED)
    return names if names is not None else ()


def _named(bits: int, reasons: list[str]) -> list[str]:
    return [reason for i, reason in enumerate(reasons) if bits >> i & 1]
