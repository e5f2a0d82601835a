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
from plugins.helpers.allocation import NATIVE, real_requests
from plugins.helpers.amounts import Capacities, as_vector
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import MAX_NODE_SCORE, PreScorePlugin, Scope, ScorePlugin
from scheduler.framework.status import SKIP, Status
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodShape
from scheduler.snapshot.snapshot import Nodes

HALF = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """Score nodes by how even they are used with the pod, against without it."""

    name = "NodeResourcesBalancedAllocation"
    scope = Scope.ROW
    bounded = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        args = args or NodeResourcesBalancedAllocationArgs()
        self.resources = tuple(spec.name for spec in args.resources)
        #: resources -> (version of the snapshot, evenness of all rows as they are)
        self._kept: dict[tuple[str, ...], tuple[int, Vector]] = {}

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """SKIP for pods that request none of the resources: they would all gather on the most even node."""
        return None if any(self._wanted(state.pod_info.shape).values()) else SKIP

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector:
        """50 + (50 + with − without) / 2, in Go's integers."""
        wanted = self._wanted(state.pod_info.shape)
        score = self._evenness(nodes, wanted)
        score -= self._evenness_as_is(nodes, tuple(wanted))
        score += HALF
        score /= 2
        np.floor(score, out=score)
        score += HALF
        return score

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The same formula for one node."""
        wanted = self._wanted(state.pod_info.shape)
        offered = [
            (node.requested.get(r, 0), n, node.allocatable[r]) for r, n in wanted.items() if node.allocatable.get(r)
        ]
        with_pod = evenness_of_one([(requested + amount) / capacity for requested, amount, capacity in offered])
        without_pod = evenness_of_one([requested / capacity for requested, _, capacity in offered])
        return HALF + (HALF + with_pod - without_pod) // 2

    def _wanted(self, shape: PodShape) -> Mapping[str, int]:
        """What the pod requests; a scalar resource that it does not request is no matter of this pod."""
        return {r: amount for r, amount in real_requests(shape, self.resources).items() if amount or r in NATIVE}

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

    def _evenness_as_is(self, nodes: Nodes, resources: tuple[str, ...]) -> Vector:
        """How even the nodes are used without the pod: the same for all pods, so only changed rows are computed."""
        snapshot, nothing = nodes.snapshot, dict.fromkeys(resources, 0)
        version, kept = self._kept.get(resources, (-1, np.zeros(0)))
        if kept.size != snapshot.size or version < snapshot.node_epoch:
            kept = self._evenness(snapshot.nodes, nothing)
        elif version != snapshot.version:
            rows = snapshot.changed_since(version)
            kept[rows] = self._evenness(snapshot.select(rows), nothing)
        self._kept[resources] = (snapshot.version, kept)
        as_is: Vector = nodes.gather(kept)
        return as_is


def evenness_of_one(shares: Sequence[float]) -> int:
    """100 times one minus the standard deviation of the used shares, truncated; a share is at most 1.

    The deviation is 0 for one resource, half the distance for two, the population's for more.
    """
    shares = [min(share, 1.0) for share in shares]
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
