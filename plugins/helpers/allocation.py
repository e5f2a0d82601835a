"""The scoring strategies of NodeResourcesFit, over all nodes of a view at once and for one node.

A strategy scores one resource from what is requested (the pod included) and the capacity, then makes the weighted mean
over resources. Integers are divided per resource first and by the sum of weights last, as upstream does.

Only plugins call it; it never decides whether a pod fits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from config.types import ScoringStrategy, UtilizationShapePoint
from kube.api.pod_requests import is_scalar_resource
from plugins.helpers import amounts
from plugins.helpers.amounts import PAIR, Amounts, Capacities, as_vector
from plugins.helpers.kept_rows import KeptRows
from scheduler.framework.plugin import MAX_NODE_SCORE
from scheduler.snapshot.columns import Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodShape
from scheduler.snapshot.snapshot import Nodes

NATIVE = ("cpu", "memory", "ephemeral-storage")
MAX_UTILIZATION = 100
#: shapes are written with scores 0..10
SHAPE_SCALE = 10

#: (resource, weight, amount that the pod requests)
Wanted = tuple[tuple[str, int, int], ...]

#: (requested, capacity > 0) -> 0..100, for arrays; that of `requested` is reused
ManyScores = Callable[[Amounts, Amounts], Amounts]
#: the same for integers
OneScore = Callable[[int, int], int]


class Strategy:
    """How good a node is, given its requested amounts and capacities. Owner: the plugin that scores by it."""

    def __init__(self, strategy: ScoringStrategy) -> None:
        #: (resource, weight)
        self.resources = tuple((spec.name, spec.weight) for spec in strategy.resources if counts(spec.name))
        #: RequestedToCapacityRatio rounds, and leaves out resources that score 0
        self.by_ratio = strategy.type == "RequestedToCapacityRatio"
        self._many, self._one = _resource_scores(strategy)
        #: the default: what is left of cpu and memory
        self._by_what_is_left = strategy.type == "LeastAllocated" and [r for r, _ in self.resources] == list(PAIR)
        self._left = KeptRows(_left_percent, _left_percent_of_one)
        self._weights = [float(weight) for _, weight in self.resources]
        self._weight = sum(self._weights)

    def utilisation(self, nodes: Nodes) -> float:
        """How full all these nodes are together, 0..100: the weighted mean over the resources that they offer."""
        total, weights = 0, 0
        for resource, weight in self.resources:
            offered = int(np.sum(nodes.allocatable(resource)))
            if offered:
                used = min(int(np.sum(nodes.requested(resource))), offered)
                total += weight * (used * MAX_NODE_SCORE // offered)
                weights += weight
        return float(total // weights) if weights else 0.0

    def wanted(self, shape: PodShape) -> Wanted:
        """What the pod requests, as scoring takes it; a scalar resource that it does not request is no matter of it."""
        wanted = []
        for resource, weight in self.resources:
            amount = _scoring_request(shape, resource)
            if amount or resource in NATIVE:
                wanted.append((resource, weight, amount))
        return tuple(wanted)

    def score(self, wanted: Wanted, nodes: Nodes) -> Vector:
        """The weighted mean over the resources that a node offers."""
        if self._by_what_is_left:
            capacities = nodes.snapshot.index(Capacities)
            capacity = capacities.pair(nodes)
            if capacity is not None:
                return self._mean_left(wanted, nodes, capacity, capacities.nothing(nodes.size))
        return self._mean(wanted, nodes)

    def _mean_left(self, wanted: Wanted, nodes: Nodes, capacity: Vector, nothing: Vector) -> Vector:
        """The same as `_mean` for the default strategy, with less to do: `(2, size)` at once, from kept numbers."""
        left = self._left.of(nodes) - np.array([(float(MAX_NODE_SCORE * amount),) for _, _, amount in wanted])
        np.maximum(left, nothing, out=left)
        np.divide(left, capacity, out=left)
        cpu, memory = np.floor(left, out=left)
        if self._weight != len(PAIR):
            cpu *= self._weights[0]
            memory *= self._weights[1]
        mean: Vector = cpu + memory
        mean /= self._weight
        return np.floor(mean, out=mean)

    def _mean(self, wanted: Wanted, nodes: Nodes) -> Vector:
        capacities = nodes.snapshot.index(Capacities)
        total = nodes.zeros
        # One number while all nodes offer all resources, else one per node.
        weights: Any = 0.0
        for resource, weight, amount in wanted:
            capacity = capacities.of(nodes, resource)
            requested = amounts.scoring_requested(nodes, resource) + amount
            each = as_vector(self._many(requested, capacity.amounts))
            counted: Any = 1.0
            if capacity.offered is not None:
                each *= capacity.offered
                counted = capacity.offered
            if self.by_ratio:
                counted = each > 0
            total += each if weight == 1 else weight * each
            weights = weights + weight * counted
        total /= np.maximum(weights, 1)
        if self.by_ratio:
            total += 0.5
        score: Vector = np.floor(total, out=total)
        return score

    def score_node(self, wanted: Wanted, node: NodeInfo) -> int:
        """The same for one node, in integers."""
        total = weights = 0
        for resource, weight, amount in wanted:
            capacity = node.allocatable.get(resource, 0)
            if not capacity:
                continue
            each = self._one(_scoring_requested(node, resource) + amount, capacity)
            if each > 0 or not self.by_ratio:
                total += weight * each
                weights += weight
        if not weights:
            return 0
        return math.floor(total / weights + 0.5) if self.by_ratio else total // weights


def counts(resource: str) -> bool:
    """Whether the scheduler knows how to count this resource; others never score."""
    return resource in NATIVE or is_scalar_resource(resource)


def _scoring_request(shape: PodShape, resource: str) -> int:
    if resource == "cpu":
        return shape.non_zero_cpu
    if resource == "memory":
        return shape.non_zero_memory
    return shape.requests.get(resource, 0)


def _scoring_requested(node: NodeInfo, resource: str) -> int:
    if resource == "cpu":
        return node.non_zero_cpu
    if resource == "memory":
        return node.non_zero_memory
    return node.requested.get(resource, 0)


# --- LeastAllocated: what is left, in percent; 0 where more is requested than there is -----------------------------


def _least(requested: Amounts, capacity: Amounts) -> Amounts:
    left = np.subtract(capacity, requested, out=requested)
    np.maximum(left, np.zeros(left.shape, left.dtype), out=left)
    left *= MAX_NODE_SCORE
    return amounts.divide(left, capacity)


def _left_percent(nodes: Nodes) -> Vector:
    """`(2, size)` 100 times what is left of cpu and memory; whole, as the amounts are below 2^53 / 101."""
    offered: Vector = np.array([nodes.allocatable(resource) for resource in PAIR])
    offered -= nodes.column("non_zero")
    offered *= MAX_NODE_SCORE
    return offered


def _left_percent_of_one(node: NodeInfo) -> tuple[int, int]:
    cpu, memory = (node.allocatable.get(resource, 0) for resource in PAIR)
    return MAX_NODE_SCORE * (cpu - node.non_zero_cpu), MAX_NODE_SCORE * (memory - node.non_zero_memory)


def _least_one(requested: int, capacity: int) -> int:
    return (capacity - requested) * MAX_NODE_SCORE // capacity if requested < capacity else 0


# --- MostAllocated: what is requested, in percent, at most all -----------------------------------------------------


def _most(requested: Amounts, capacity: Amounts) -> Amounts:
    used = np.minimum(requested, capacity, out=requested)
    used *= MAX_NODE_SCORE
    return amounts.divide(used, capacity)


def _most_one(requested: int, capacity: int) -> int:
    return min(requested, capacity) * MAX_NODE_SCORE // capacity


# --- RequestedToCapacityRatio: a given shape over the utilization in whole percent ---------------------------------


def _ratio(points: Sequence[UtilizationShapePoint]) -> tuple[ManyScores, OneScore]:
    table = [broken_linear(points, utilization) for utilization in range(MAX_UTILIZATION + 1)]
    vector = np.array(table, np.float64)

    def many(requested: Amounts, capacity: Amounts) -> Amounts:
        utilization = amounts.divide(np.minimum(requested, capacity) * MAX_UTILIZATION, capacity)
        return vector.take(utilization.astype(np.intp))

    def one(requested: int, capacity: int) -> int:
        return table[min(requested, capacity) * MAX_UTILIZATION // capacity]

    return many, one


def broken_linear(points: Sequence[UtilizationShapePoint], utilization: int) -> int:
    """Straight lines between the points (ordered by utilization), constant outside; scaled to 0..100."""
    if utilization <= points[0].utilization:
        return SHAPE_SCALE * points[0].score
    for before, after in itertools.pairwise(points):
        if utilization <= after.utilization:
            rise = SHAPE_SCALE * (after.score - before.score) * (utilization - before.utilization)
            return SHAPE_SCALE * before.score + _truncated(rise, after.utilization - before.utilization)
    return SHAPE_SCALE * points[-1].score


def _truncated(dividend: int, divisor: int) -> int:
    """Go's division truncates toward zero, where Python's rounds down."""
    quotient = abs(dividend) // divisor
    return quotient if dividend >= 0 else -quotient


def _resource_scores(strategy: ScoringStrategy) -> tuple[ManyScores, OneScore]:
    match strategy.type:
        case "LeastAllocated":
            return _least, _least_one
        case "MostAllocated":
            return _most, _most_one
        case "RequestedToCapacityRatio":
            ratio = strategy.requested_to_capacity_ratio
            if ratio is None or not ratio.shape:
                raise ValueError("scoringStrategy RequestedToCapacityRatio needs requestedToCapacityRatio.shape")
            return _ratio(ratio.shape)
        case unknown:
            raise ValueError(
                f"scoringStrategy.type {unknown!r}: expected LeastAllocated, MostAllocated or RequestedToCapacityRatio"
            )
