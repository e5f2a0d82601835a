"""Resource amounts over the nodes of a view, exact however large, and Go's integer division on them.

The snapshot's columns hold whole numbers in float64. A resource that some node offers in amounts too large for exact
float division (`Snapshot.wide_resources`, 81 TiB and more) is divided as int64; one with amounts that float64 may not
hold (`huge_resources`, 8 PiB) is read from the NodeInfos as Python integers, in arrays of objects: slow, but right.

Only plugins call it. All arrays are `(size,)`; rows without a node have 0 everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes, Snapshot

#: the resources that nearly every node offers and every pod is scored by
PAIR = ("cpu", "memory")

#: float64 whole numbers, int64, or Python integers in an array of objects
Amounts = NDArray[Any]


def allocatable(nodes: Nodes, resource: str) -> Amounts:
    """What the nodes offer of a resource."""
    if resource in nodes.snapshot.huge_resources:
        return _from_infos(nodes, lambda info: info.allocatable.get(resource, 0))
    return _whole(nodes, resource, nodes.allocatable(resource))


def requested(nodes: Nodes, resource: str) -> Amounts:
    """What the pods on the nodes request of a resource."""
    if resource in nodes.snapshot.huge_resources:
        return _from_infos(nodes, lambda info: info.requested.get(resource, 0))
    return _whole(nodes, resource, nodes.requested(resource))


def free(nodes: Nodes, resource: str) -> Amounts:
    """Allocatable minus requested; only to be compared."""
    if resource in nodes.snapshot.huge_resources:
        return _from_infos(nodes, lambda info: info.allocatable.get(resource, 0) - info.requested.get(resource, 0))
    return nodes.free(resource)


def scoring_requested(nodes: Nodes, resource: str) -> Amounts:
    """What scoring takes as requested: for cpu and memory a container that requests none counts too."""
    if resource not in PAIR:
        return requested(nodes, resource)
    if resource in nodes.snapshot.huge_resources:
        return _from_infos(nodes, lambda info: info.non_zero_cpu if resource == "cpu" else info.non_zero_memory)
    return _whole(nodes, resource, nodes.non_zero(resource))


def divide(dividend: Amounts, divisor: Amounts) -> Amounts:
    """Go's integer division, for non-negative dividends and positive divisors; the dividend's array may be reused."""
    if dividend.dtype != np.float64 or divisor.dtype != np.float64:
        return dividend // divisor
    np.divide(dividend, divisor, out=dividend)
    return np.floor(dividend, out=dividend)


class Capacity:
    """What the nodes of a view offer of a resource, fit to divide by."""

    __slots__ = ("amounts", "offered")

    def __init__(self, amounts: Amounts, offered: Mask | None) -> None:
        #: positive: 1 where a node offers none
        self.amounts = amounts
        #: where the resource is offered; None: by all nodes
        self.offered = offered


class Capacities:
    """Capacities of all rows by resource, made once until a node changes. Owner: the snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[str, Capacity] = {}
        self._pair: Vector | None = None
        self._nothing = np.zeros(0)
        self._epoch = -1

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """The next question finds the columns written and a new epoch."""

    def of(self, nodes: Nodes, resource: str) -> Capacity:
        """The capacity of the view's nodes."""
        self._forget_older()
        whole = self._known.get(resource)
        if whole is None:
            whole = self._known[resource] = self._make(resource)
        if nodes.rows is None:
            return whole
        offered = None if whole.offered is None else whole.offered.take(nodes.rows)
        return Capacity(whole.amounts.take(nodes.rows), offered)

    def pair(self, nodes: Nodes) -> Vector | None:
        """`(2, size)` what the view's nodes offer of cpu and memory; None if not all offer both, or too much of it."""
        self._forget_older()
        if self._pair is None:
            whole = [self._known.get(resource) or self._make(resource) for resource in PAIR]
            if any(each.offered is not None for each in whole) or not self._snapshot.wide_resources.isdisjoint(PAIR):
                return None
            self._pair = np.array([each.amounts for each in whole])
        pair: Vector = nodes.gather(self._pair)
        return pair

    def nothing(self, size: int) -> Vector:
        """`(size,)` zeros that nobody writes to, at most as many as there are rows: numpy is slow against a plain 0."""
        if size > len(self._nothing):
            self._nothing = np.zeros(self._snapshot.size)
        return self._nothing[:size]

    def _forget_older(self) -> None:
        if self._epoch != self._snapshot.node_epoch:
            self._known.clear()
            self._pair = None
            self._epoch = self._snapshot.node_epoch

    def _make(self, resource: str) -> Capacity:
        everybody = self._snapshot.nodes
        capacity = allocatable(everybody, resource)
        offered = capacity > 0
        everywhere = bool(offered[everybody.column("alive")].all())
        return Capacity(np.where(offered, capacity, 1), None if everywhere else offered)


def as_vector(amounts: Amounts) -> Vector:
    """The nearest float64 of each amount, as Go converts an int64."""
    return amounts.astype(np.float64, copy=False)


def _whole(nodes: Nodes, resource: str, column: Vector) -> Amounts:
    """int64 where 100 times an amount is no longer exact in float64."""
    return column.astype(np.int64) if resource in nodes.snapshot.wide_resources else column


def _from_infos(nodes: Nodes, amount: Callable[[NodeInfo], int]) -> Amounts:
    amounts = np.zeros(nodes.size, object)
    for i, info in nodes.infos():
        amounts[i] = amount(info)
    return amounts
