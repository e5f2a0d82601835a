"""Preemption by arithmetic: where free amounts are all a pod lacks, no dry run is needed.

`LowerPods` keeps, per row, what the pods below a priority request. Where a node's free amounts and these together are
not enough, evicting pods does not help: known for all nodes at once. Where they are, and no other filter has to be
asked, the victims follow from subtracting requests. The dry run is the definition of both.

Used by `candidates` only. Exact below 2^53; the caller keeps away larger amounts (`Snapshot.wide_resources`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from operator import sub

import numpy as np

from scheduler.framework.preemption.dry_run import Budgets, Candidate, by_importance, candidate
from scheduler.snapshot.columns import Codes, Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Nodes, Snapshot

#: priorities of preemptors whose sums are kept; each costs a few vectors and a microsecond a pod event
MAX_THRESHOLDS = 8
#: rows whose amounts are turned into Python numbers at once: a search rarely needs all
CHUNK = 256

PODS = "pods"
#: resource -> sum per row; "pods" counts them
Sums = dict[str, Vector]


class LowerPods:
    """What the pods below some priorities request, per row. Owner: the snapshot, which reports every change."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        #: priority of a preemptor -> sums of what is below it, least recently used first
        self._below: OrderedDict[int, Sums] = OrderedDict()
        self._ranked: dict[int, list[PodInfo]] = {}

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """A new row may be beyond the ends of the vectors."""
        for sums in self._below.values():
            for resource, vector in sums.items():
                if row >= len(vector):
                    sums[resource] = np.concatenate((vector, np.zeros(max(64, len(vector)))))

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Count a pod."""
        self._count(row, pod, 1)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """A pod counts no longer."""
        self._count(row, pod, -1)

    def _count(self, row: int, pod: PodInfo, sign: int) -> None:
        self._ranked.pop(row, None)
        for priority, sums in self._below.items():
            if pod.priority >= priority:
                continue
            sums[PODS][row] += sign
            for resource, amount in pod.requests.items():
                vector = sums.get(resource)
                if vector is None:
                    vector = sums[resource] = np.zeros(len(sums[PODS]))
                vector[row] += sign * amount

    def below(self, priority: int) -> Sums:
        """Sums over the pods of lower priority, `(≥ rows,)` each; a resource that none of them requests is left out."""
        sums = self._below.get(priority)
        if sums is None:
            sums = self._below[priority] = self._sum_up(priority)
            if len(self._below) > MAX_THRESHOLDS:
                self._below.popitem(last=False)
        self._below.move_to_end(priority)
        return sums

    def _sum_up(self, priority: int) -> Sums:
        """One step a pod, then one sum a resource: replicas share what they request."""
        rows: list[int] = []
        kinds: list[int] = []
        known: dict[int, int] = {}
        requests: list[Mapping[str, int]] = []
        for info in self._snapshot.node_infos():
            for pod in info.pods.values():
                if pod.priority < priority:
                    kind = known.setdefault(id(pod.requests), len(known))
                    if kind == len(requests):
                        requests.append(pod.requests)
                    rows.append(info.row)
                    kinds.append(kind)
        size = max(self._snapshot.size, 1)
        at, kind_of = np.array(rows, np.intp), np.array(kinds, np.intp)
        sums = {PODS: _sum_by_row(at, np.ones(len(at)), size)}
        for resource in {name for each in requests for name in each}:
            amounts = np.array([each.get(resource, 0) for each in requests], np.float64)
            sums[resource] = _sum_by_row(at, amounts[kind_of], size)
        return sums

    def ranked(self, row: int) -> list[PodInfo]:
        """The pods of a row, the most important first."""
        pods = self._ranked.get(row)
        if pods is None:
            info = self._snapshot.infos[row]
            assert info is not None, "no node at that row"
            pods = self._ranked[row] = by_importance(info.pods.values())
        return pods


class Room:
    """The room that evicting all pods of lower priority would make, for one pod on all rows. Lives for one search."""

    def __init__(self, nodes: Nodes, needed: Mapping[str, int], priority: int) -> None:
        self._nodes = nodes
        self._priority = priority
        self._index = nodes.snapshot.index(LowerPods)
        self._resources = tuple(needed)
        sums = self._index.below(priority)
        size = nodes.size
        #: `(size,)` some pod there has lower priority
        self.has_lower: Mask = sums[PODS][:size] > 0
        self._spare = np.empty((len(needed), size))
        for i, (resource, amount) in enumerate(needed.items()):
            np.subtract(nodes.free(resource), amount, out=self._spare[i])
            if resource in sums:
                self._spare[i] += sums[resource][:size]
        self._lacking = self._spare < 0
        #: `(size,)` the pod would fit
        self.is_enough: Mask = np.logical_not(self._lacking.any(axis=0))
        self._amounts: dict[int, tuple[int, ...]] = {}

    def lacking_kinds(self, rows: Codes) -> Iterator[tuple[int, int]]:
        """(one row, number of rows) for each combination of resources that lack on these rows."""
        bits = (1 << np.arange(len(self._resources))) @ self._lacking[:, rows]
        _, first, counts = np.unique(bits, return_index=True, return_counts=True)
        yield from zip(rows[first].tolist(), counts.tolist(), strict=True)

    def spare_of(self, rows: Codes) -> Iterator[list[float]]:
        """For each of the rows, what is left of the needed resources with the pod there and all lower ones gone."""
        for start in range(0, len(rows), CHUNK):
            yield from self._spare[:, rows[start : start + CHUNK]].T.tolist()

    def select_victims(self, row: int, spare: Sequence[float], budgets: Budgets) -> Candidate:
        """The victims on a row where the room is enough and there are lower pods."""
        info = self._nodes.snapshot.infos[row]
        assert info is not None, "no node at that row"
        pods = self._index.ranked(row)
        first = next(i for i, pod in enumerate(pods) if pod.priority < self._priority)
        violating, others = budgets.split(pods[first:] if first else pods)
        spare, violated = self._put_back(violating, spare)
        spare, victims = self._put_back(others, spare)
        if not violating:
            return Candidate(info.name, tuple(victims), 0)
        return candidate(info.name, violated + victims, len(violated))

    def _put_back(self, pods: Sequence[PodInfo], spare: Sequence[float]) -> tuple[Sequence[float], list[PodInfo]]:
        """Put pods back while nothing runs out; what is left then, and the pods that could not be put back."""
        victims = []
        for pod in pods:
            left = list(map(sub, spare, self._taken_by(pod)))
            if min(left) >= 0:
                spare = left
            else:
                victims.append(pod)
        return spare, victims

    def _taken_by(self, pod: PodInfo) -> tuple[int, ...]:
        requests = pod.requests
        taken = self._amounts.get(id(requests))
        if taken is None:
            taken = tuple(1 if name == PODS else requests.get(name, 0) for name in self._resources)
            self._amounts[id(requests)] = taken
        return taken


def _sum_by_row(rows: Codes, amounts: Vector, size: int) -> Vector:
    return np.bincount(rows, weights=amounts, minlength=size).astype(np.float64, copy=False)
