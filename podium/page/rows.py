"""The shapes of what the page is sent: short rows, because there are thousands of them (docs/page.md lists the fields).

Each row is a JSON array in the order of its fields. Pure functions of one node, pod or decision; nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from podium.explain.reasons import reasons_of
from scheduler.decision_log import Decision
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.snapshot.node_info import NodeInfo

ZONE = "topology.kubernetes.io/zone"
#: characters of a message that a row holds; the explanation has all of it
MAX_TEXT = 240
_RESERVED = frozenset({"cpu", "memory", "pods"})


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The base of all rows."""


class NodeRow(Row, frozen=True, array_like=True, gc=False):
    """A node on the map. Shares: requested over allocatable."""

    name: str
    zone: str
    #: "", "cordoned" or "not ready"
    state: str
    pods: int
    cpu: float
    memory: float
    pod_share: float
    #: share by other resource, where the node offers it
    others: dict[str, float]


class PendingRow(Row, frozen=True, array_like=True, gc=False):
    """A pod that waits. Times are the wall clock's, in seconds."""

    uid: str
    namespace: str
    name: str
    pool: str
    priority: int
    attempts: int
    since: float
    #: 0 where it is not in backoff
    backoff_until: float
    nominated_node: str
    reason: str


class DecisionRow(Row, frozen=True, array_like=True, gc=False):
    """One scheduling cycle."""

    time: float
    namespace: str
    name: str
    uid: str
    result: str
    node: str
    feasible: int
    nodes: int
    microseconds: int
    reason: str
    nominated_node: str
    victims: int


class Sample(Row, frozen=True, array_like=True, gc=False):
    """One second. Rates are per second; latencies in milliseconds, null where nothing was measured."""

    time: float
    bound: float
    refused: float
    cycle_p50: float | None
    cycle_p99: float | None
    bound_p50: float | None
    bound_p99: float | None
    active: int
    backoff: int
    unschedulable: int
    gated: int


def node_row(info: NodeInfo) -> NodeRow:
    """A node as it is now. It has a node object: ghosts are not shown."""
    have, used = info.allocatable, info.requested
    return NodeRow(
        name=info.name,
        zone=info.labels.get(ZONE, ""),
        state=_state(info),
        pods=len(info.pods),
        cpu=_share(used, have, "cpu"),
        memory=_share(used, have, "memory"),
        pod_share=_share(used, have, "pods"),
        others={name: _share(used, have, name) for name, amount in have.items() if amount and name not in _RESERVED},
    )


def _share(used: Mapping[str, int], have: Mapping[str, int], name: str) -> float:
    total = have.get(name, 0)
    return round(used.get(name, 0) / total, 3) if total else 0.0


def _state(info: NodeInfo) -> str:
    node = info.node
    assert node is not None
    ready = next((c.status for c in node.status.conditions if c.type == "Ready"), "True")
    if ready != "True":
        return "not ready"
    return "cordoned" if node.spec.unschedulable else ""


def pending_row(item: QueuedPodInfo, pool: str, message: str, wall: float, nominated: str) -> PendingRow:
    """`wall`: what turns the queue's clock into the wall's."""
    meta = item.pod.metadata
    return PendingRow(
        uid=item.uid,
        namespace=meta.namespace,
        name=meta.name,
        pool=pool,
        priority=item.pod_info.priority,
        attempts=item.attempts,
        since=round(item.timestamp + wall, 1),
        backoff_until=round(item.backoff_expiration + wall, 1) if pool == "backoff" else 0.0,
        nominated_node=nominated,
        reason=brief(message),
    )


def decision_row(record: Decision) -> DecisionRow:
    """A record of the decision log."""
    return DecisionRow(
        time=round(record.time, 3),
        namespace=record.namespace,
        name=record.name,
        uid=record.uid,
        result=record.result,
        node=record.node,
        feasible=record.feasible,
        nodes=record.nodes,
        microseconds=round(record.seconds * 1e6),
        reason=brief(record.message),
        nominated_node=record.nominated_node,
        victims=len(record.victims),
    )


@lru_cache(maxsize=2_048)
def brief(message: str) -> str:
    """The reasons of a message with their numbers of nodes, without what preemption says."""
    parts = (f"{nodes:,} {reason}" if nodes else reason for reason, nodes in reasons_of(message))
    text = " · ".join(parts)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def encode(value: Any) -> bytes:
    """JSON."""
    return _ENCODER.encode(value)


_ENCODER = msgspec.json.Encoder()
