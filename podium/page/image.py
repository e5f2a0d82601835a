"""The image: what the page shows, kept up to date in slices, and what has changed since the last time.

Each row is built from one state of its node or pod; a pass over all of them takes several turns of the loop, none
longer than a slice. Only what the scheduler holds anyway is read: nothing is refreshed, asked or measured.

Owner: the hub. Idle while nobody looks.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from time import perf_counter, thread_time
from typing import Any, TypeVar

import msgspec

from kube.api.core import Node
from podium.explain.reasons import last_messages, message_of, reasons_of
from podium.page.rows import DecisionRow, NodeRow, PendingRow, decision_row, encode, node_row, pending_row
from podium.wiring import Service
from scheduler.decision_log import Decision
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.snapshot.node_info import NodeInfo

#: the longest that the page holds the loop, seconds
SLICE = 0.002
#: items between two looks at the clock
PART = 64
#: pods shown of each pool, reasons, and decisions; what is beyond is counted
MAX_PODS = 250
MAX_REASONS = 12
MAX_DECISIONS = 100
SUMMED = ("cpu", "memory", "pods")
POOLS = ("unschedulable", "backoff", "active", "in flight", "gated")


T = TypeVar("T")


class Slices:
    """Gives way to the rest of the program whenever a slice is used up, and adds up the processor time that was used.

    On a busy machine a slice may take long without using anything: that is no reason to do less.
    """

    def __init__(self) -> None:
        self.spent = 0.0
        self._started, self._began = perf_counter(), thread_time()

    async def of(self, items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
        """The items in parts that take less than a slice each."""
        for i in range(0, len(items), PART):
            if perf_counter() - self._started > SLICE:
                self.stop()
                await asyncio.sleep(0)
                self._started, self._began = perf_counter(), thread_time()
            yield items[i : i + PART]

    def stop(self) -> None:
        """The slice is over."""
        self.spent += thread_time() - self._began


class Change(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """What is new since the last one. The same shape, with everything in it, is the whole state."""

    time: float
    status: dict[str, Any] | None = None
    #: rows that are new or changed, and names that are gone
    nodes: list[Any] = msgspec.field(default_factory=list)
    gone_nodes: list[str] = msgspec.field(default_factory=list)
    pods: list[Any] = msgspec.field(default_factory=list)
    gone_pods: list[str] = msgspec.field(default_factory=list)
    #: pending pods by pool, and by reason, the most frequent first; null: as before
    lengths: dict[str, int] | None = None
    reasons: list[tuple[str, int]] | None = None
    totals: dict[str, tuple[int, int]] | None = None
    #: the newest first
    decisions: list[DecisionRow] = msgspec.field(default_factory=list)
    samples: list[Any] = msgspec.field(default_factory=list)


class _Shown(msgspec.Struct):
    """A node as it was last built: from what, and what came of it."""

    node: Node
    amounts: tuple[tuple[str, int], ...]
    #: (requested, allocatable) of what is summed up
    sums: tuple[tuple[int, int], ...]
    row: NodeRow
    encoded: msgspec.Raw


class Image:
    """Everything the page shows but the samples."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._nodes: dict[str, _Shown] = {}
        self._pods: dict[str, PendingRow] = {}
        self._lengths: dict[str, int] = {}
        self._reasons: list[tuple[str, int]] = []
        self._sums = [[0, 0] for _ in SUMMED]
        self._totals: dict[str, tuple[int, int]] = {}
        self._status: dict[str, Any] = {}
        self._decisions: deque[DecisionRow] = deque(maxlen=MAX_DECISIONS)
        self._newest: Decision | None = None

    async def update(self, slices: Slices) -> Change:
        """Look at everything once more; what has changed."""
        change = Change(time=time.time())
        await self._update_nodes(change, slices)
        await self._update_queue(change, slices)
        self._update_decisions(change)
        status = self._now()
        if status != self._status:
            self._status = change.status = status
        slices.stop()
        return change

    def whole(self) -> Change:
        """All of it, as it was at the last update."""
        return Change(
            time=time.time(),
            status=self._status,
            nodes=[shown.encoded for shown in self._nodes.values()],
            pods=[*self._pods.values()],
            lengths=self._lengths,
            reasons=self._reasons,
            totals=self._totals,
            decisions=[*self._decisions],
        )

    def _now(self) -> dict[str, Any]:
        service = self._service
        return {
            "profiles": sorted(service.scheduler.frameworks),
            "synced": service.synced.is_set(),
            "leader": None if not service.elects else bool(service.elector and service.elector.is_leader),
            "stopping": service.stopping,
        }

    # --- nodes --------------------------------------------------------------------------------------------

    async def _update_nodes(self, change: Change, slices: Slices) -> None:
        nodes = self._service.cache.nodes
        async for part in slices.of([*nodes.items()]):
            for name, info in part:
                self._update_node(change, name, info)
        for name in self._nodes.keys() - nodes.keys():
            self._drop_node(change, name)
        totals = {name: (sums[0], sums[1]) for name, sums in zip(SUMMED, self._sums, strict=True)}
        if totals != self._totals:
            self._totals = change.totals = totals

    def _update_node(self, change: Change, name: str, info: NodeInfo) -> None:
        shown, node = self._nodes.get(name), info.node
        amounts = tuple(info.requested.items())
        if node is None:
            if shown is not None:
                self._drop_node(change, name)
        elif shown is None or shown.node is not node or shown.amounts != amounts:
            sums = tuple((info.requested.get(each, 0), info.allocatable.get(each, 0)) for each in SUMMED)
            self._add_up(shown.sums if shown is not None else (), sums)
            row = node_row(info)
            if shown is None or shown.row != row:
                encoded = msgspec.Raw(encode(row))
                change.nodes.append(encoded)
            else:
                encoded = shown.encoded
            self._nodes[name] = _Shown(node, amounts, sums, row, encoded)

    def _drop_node(self, change: Change, name: str) -> None:
        self._add_up(self._nodes.pop(name).sums, ())
        change.gone_nodes.append(name)

    def _add_up(self, before: Sequence[tuple[int, int]], now: Sequence[tuple[int, int]]) -> None:
        for sign, sums in ((-1, before), (1, now)):
            for total, (requested, allocatable) in zip(self._sums, sums, strict=False):
                total[0] += sign * requested
                total[1] += sign * allocatable

    # --- pods ---------------------------------------------------------------------------------------------

    async def _update_queue(self, change: Change, slices: Slices) -> None:
        scheduler = self._service.scheduler
        pending = scheduler.queue.pending_pods()
        messages = last_messages(scheduler.decisions)
        lengths, told = dict.fromkeys(POOLS, 0), Counter[str]()
        shown: dict[str, PendingRow] = {}
        wall = time.time() - scheduler.queue.now()
        async for part in slices.of(pending):
            for item, pool in part:
                lengths[pool] += 1
                message = message_of(item, pool, messages)
                told[message] += 1
                if lengths[pool] <= MAX_PODS:
                    shown[item.uid] = self._pending(item, pool, message, wall)
        self._tell_pods(change, shown)
        if lengths != self._lengths:
            self._lengths = change.lengths = lengths
        reasons = _reasons(told)
        if reasons != self._reasons:
            self._reasons = change.reasons = reasons

    def _pending(self, item: QueuedPodInfo, pool: str, message: str, wall: float) -> PendingRow:
        nominated = self._service.scheduler.queue.nominator.node_of(item.uid) or ""
        row = pending_row(item, pool, message, wall, nominated)
        before = self._pods.get(item.uid)
        # The two clocks drift by parts of a second, which is no news.
        return before if before is not None and _alike(before, row) else row

    def _tell_pods(self, change: Change, shown: dict[str, PendingRow]) -> None:
        change.pods.extend(row for uid, row in shown.items() if self._pods.get(uid) is not row)
        change.gone_pods.extend(uid for uid in self._pods if uid not in shown)
        self._pods = shown

    def _update_decisions(self, change: Change) -> None:
        newest = self._newest
        found: list[Decision] = []
        for decision in self._service.scheduler.decisions:
            if decision is newest or len(found) == MAX_DECISIONS:
                break
            found.append(decision)
        if found:
            self._newest = found[0]
        change.decisions = [decision_row(decision) for decision in found]
        self._decisions.extendleft(reversed(change.decisions))


def _alike(before: PendingRow, now: PendingRow) -> bool:
    apart = max(abs(before.since - now.since), abs(before.backoff_until - now.backoff_until))
    if apart > 0.5:
        return False
    return msgspec.structs.replace(now, since=before.since, backoff_until=before.backoff_until) == before


def _reasons(told: Mapping[str, int]) -> list[tuple[str, int]]:
    """Pods by reason; a pod counts once for each of its reasons."""
    counts: Counter[str] = Counter()
    for message, pods in told.items():
        for reason in {reason for reason, _ in reasons_of(message)}:
            counts[reason] += pods
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:MAX_REASONS]
