"""NodeResourcesBalancedAllocation: prefer nodes whose resources would be used evenly.

How even a node is used is 100 minus the standard deviation of the used shares, in percent. Since 1.36 the score says
how much the pod improves it: 75 leaves it as it is, 50 to 100 is the range.

Called by the framework; it never looks at scoring defaults: only real requests count here. Floating point operations
and their order are Go's, for the sake of the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from config.types import NodeResourcesBalancedAllocationArgs
from kube.api.core import Pod
from plugins.helpers import amounts
from plugins.helpers.allocation import NATIVE, counts
from plugins.helpers.amounts import PAIR, Capacities, as_vector
from plugins.helpers.kept_rows import KeptRows
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import MAX_NODE_SCORE, PreScorePlugin, Scope, ScorePlugin
from scheduler.framework.status import SKIP, Status
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodShape
from scheduler.snapshot.snapshot import Nodes

HALF = MAX_NODE_SCORE // 2
HIGHEST_START = HALF + MAX_NODE_SCORE


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """Score nodes by how even they are used with the pod, against without it."""

    name = "NodeResourcesBalancedAllocation"
    scope = Scope.ROW
    bounded = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        args = args or NodeResourcesBalancedAllocationArgs()
        self.resources = tuple(spec.name for spec in args.resources if counts(spec.name))
        self._is_pair = self.resources == PAIR
        #: resources -> what the score starts from: 150 less how even the nodes are used as they are
        self._starts: dict[tuple[str, ...], KeptRows] = {}

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """SKIP for pods that request none of the resources: they would all gather on the most even node."""
        wanted = self._requested_by(state.pod_info.shape)
        state.write(self.name, wanted)
        return None if any(wanted.values()) else SKIP

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector:
        """50 + (50 + with − without) / 2 in Go's integers; 50 is 100 / 2, so it can be added before."""
        wanted = self._wanted(state)
        capacity = nodes.snapshot.index(Capacities).pair(nodes) if self._is_pair else None
        score = self._evenness(nodes, wanted) if capacity is None else _evenness_of_pair(nodes, wanted, capacity)
        score += self._start(nodes, tuple(wanted))
        score *= 0.5
        return np.floor(score, out=score)

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The same formula for one node."""
        with_pod, without_pod = _shares(node, self._wanted(state))
        return HALF + (HALF + evenness_of_one(with_pod) - evenness_of_one(without_pod)) // 2

    def _wanted(self, state: CycleState) -> Mapping[str, int]:
        """A profile may have the score without PreScore."""
        wanted: Mapping[str, int] | None = state.data.get(self.name)
        return self._requested_by(state.pod_info.shape) if wanted is None else wanted

    def _requested_by(self, shape: PodShape) -> Mapping[str, int]:
        """What the pod requests; a scalar resource that it does not request is no matter of this pod."""
        requests = shape.requests
        return {name: requests.get(name, 0) for name in self.resources if name in NATIVE or requests.get(name)}

    def _evenness(self, nodes: Nodes, wanted: Mapping[str, int]) -> Vector:
        """How even the nodes are used with that much more requested."""
        capacities = nodes.snapshot.index(Capacities)
        shares: list[Vector] = []
        offered: list[Mask | None] = []
        for resource, amount in wanted.items():
            capacity = capacities.of(nodes, resource)
            requested = as_vector(amounts.requested(nodes, resource) + amount)
            shares.append(np.divide(requested, as_vector(capacity.amounts), out=requested))
            offered.append(capacity.offered)
        return evenness(shares, offered)

    def _start(self, nodes: Nodes, resources: tuple[str, ...]) -> Vector:
        """`(size,)` whole: what does not depend on the pod, but for which resources it requests."""
        kept = self._starts.get(resources)
        if kept is None:
            nothing = dict.fromkeys(resources, 0)
            kept = self._starts[resources] = KeptRows(
                lambda view: HIGHEST_START - self._evenness(view, nothing),
                lambda node: HIGHEST_START - evenness_of_one(_shares(node, nothing)[1]),
            )
        return kept.of(nodes)


def _shares(node: NodeInfo, wanted: Mapping[str, int]) -> tuple[list[float], list[float]]:
    """The share of each resource that the node offers, with that much more requested and without, at most 1."""
    with_pod, without_pod = [], []
    allocatable, requested = node.allocatable, node.requested
    for resource, amount in wanted.items():
        capacity = allocatable.get(resource)
        if capacity:
            already = requested.get(resource, 0)
            without_pod.append(already / capacity if already < capacity else 1.0)
            with_pod.append((already + amount) / capacity if already + amount < capacity else 1.0)
    return with_pod, without_pod


def _evenness_of_pair(nodes: Nodes, wanted: Mapping[str, int], capacity: Vector) -> Vector:
    """`evenness` of cpu and memory with the pod, `(2, size)` at once.

    (1 - |a - b| / 2) * 100 and (2 - |a - b|) * 50 are the same float, as halving is exact.
    """
    first = nodes.snapshot.resource_index["cpu"]
    shares = nodes.column("requested")[first : first + 2] + np.array([(float(amount),) for amount in wanted.values()])
    np.minimum(shares, capacity, out=shares)
    np.divide(shares, capacity, out=shares)
    even: Vector = shares[0] - shares[1]
    np.abs(even, out=even)
    np.subtract(2.0, even, out=even)
    even *= HALF
    return np.floor(even, out=even)


def evenness_of_one(shares: Sequence[float]) -> int:
    """100 times one minus the standard deviation of the used shares, truncated.

    The deviation is 0 for one resource, half the distance for two, the population's for more.
    """
    if len(shares) == 2:
        return int((1 - abs((shares[0] - shares[1]) / 2)) * MAX_NODE_SCORE)
    if len(shares) < 2:
        return MAX_NODE_SCORE
    mean = sum_in_order(shares) / len(shares)
    return int((1 - math.sqrt(sum_in_order([(s - mean) * (s - mean) for s in shares]) / len(shares))) * MAX_NODE_SCORE)


def sum_in_order(numbers: Sequence[float]) -> float:
    """One after the other: Python's own sum may carry lost digits along."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def evenness(shares: list[Vector], offered: list[Mask | None]) -> Vector:
    """The same for all nodes. `offered`: where a resource is offered, None: everywhere. The arrays are reused."""
    ones = np.ones(shares[0].shape)
    for share in shares:
        np.minimum(share, ones, out=share)
    if len(shares) == 2 and all(there is None for there in offered):
        std = np.subtract(shares[0], shares[1], out=shares[0])
        std /= 2
        np.abs(std, out=std)
    else:
        std = _deviation(shares, [ones > 0 if there is None else there for there in offered])
    even = np.subtract(ones, std, out=ones)
    even *= MAX_NODE_SCORE
    return np.floor(even, out=even)


def _deviation(shares: list[Vector], offered: list[Mask]) -> Vector:
    """The deviation where nodes differ in the number of resources they offer."""
    shares = [share * there for share, there in zip(shares, offered, strict=True)]
    count = np.sum(offered, axis=0)
    divisor = np.maximum(count, 1)
    zeros = np.zeros(divisor.shape)
    mean = sum(shares, zeros) / divisor
    squares = sum((((s - mean) * (s - mean)) * there for s, there in zip(shares, offered, strict=True)), zeros)
    lowest = np.min([np.where(there, s, 1.0) for s, there in zip(shares, offered, strict=True)], axis=0)
    half_distance = (np.max(shares, axis=0) - lowest) / 2
    std: Vector = np.where(count > 2, np.sqrt(squares / divisor), half_distance * (count == 2))
    return std
