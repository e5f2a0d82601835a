"""The same pods under two configurations: what moved, and how the use of the cluster changed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simulator.offline import NodeResult, PodResult


@dataclass(frozen=True, slots=True)
class Moved:
    """A pod that the two place differently; None: pending."""

    pod: str
    before: str | None
    after: str | None
    victims_before: tuple[str, ...]
    victims_after: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Use:
    """How full the nodes are of one resource: shares of allocatable."""

    resource: str
    mean: float
    deviation: float
    highest: float
    #: nodes that run no pod
    empty: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side."""

    pods: int
    moved: tuple[Moved, ...]
    placed: tuple[int, int]
    evicted: tuple[int, int]
    use: tuple[tuple[Use, Use], ...]


def compare(
    before: Sequence[PodResult],
    after: Sequence[PodResult],
    nodes_before: Sequence[NodeResult],
    nodes_after: Sequence[NodeResult],
) -> Comparison:
    """Pods by name, in the order of the first run."""
    others = {(row.namespace, row.name): row for row in after}
    moved = []
    for row in before:
        other = others.get((row.namespace, row.name))
        if other is None or (row.node, set(row.victims)) == (other.node, set(other.victims)):
            continue
        name = f"{row.namespace}/{row.name}"
        message = other.message or row.message
        moved.append(Moved(name, row.node, other.node, row.victims, other.victims, message))
    return Comparison(
        pods=len(before),
        moved=tuple(moved),
        placed=(_placed(before), _placed(after)),
        evicted=(_evicted(before), _evicted(after)),
        use=tuple((use_of(nodes_before, r), use_of(nodes_after, r)) for r in ("cpu", "memory")),
    )


def _placed(rows: Sequence[PodResult]) -> int:
    return sum(row.node is not None for row in rows)


def _evicted(rows: Sequence[PodResult]) -> int:
    return len({victim for row in rows for victim in row.victims})


def use_of(nodes: Sequence[NodeResult], resource: str) -> Use:
    """Over nodes that have any of the resource."""
    shares = [
        node.requested.get(resource, 0) / node.allocatable[resource] for node in nodes if node.allocatable.get(resource)
    ]
    if not shares:
        return Use(resource, 0.0, 0.0, 0.0, 0)
    empty = sum(not node.pods for node in nodes)
    return Use(resource, statistics.fmean(shares), statistics.pstdev(shares), max(shares), empty)


def document(comparison: Comparison) -> dict[str, Any]:
    """As JSON."""

    def use(each: Use) -> dict[str, Any]:
        return {
            "mean": round(each.mean, 4),
            "deviation": round(each.deviation, 4),
            "highest": round(each.highest, 4),
            "emptyNodes": each.empty,
        }

    return {
        "pods": comparison.pods,
        "placed": list(comparison.placed),
        "evicted": list(comparison.evicted),
        "moved": [
            {
                "pod": m.pod,
                "before": m.before,
                "after": m.after,
                "victimsBefore": list(m.victims_before),
                "victimsAfter": list(m.victims_after),
                "message": m.message,
            }
            for m in comparison.moved
        ],
        "use": {before.resource: [use(before), use(after)] for before, after in comparison.use},
    }
