"""Preemption by arithmetic: where free amounts are all a pod lacks, no dry run is needed.

`LowerPods` keeps, per row, what the pods below a priority request. Where a node's free amounts and these together are
not enough, evicting pods does not help: known for all nodes at once. Where they are, and no other filter has to be
asked, the victims follow from subtracting requests, for many nodes in lockstep: first the most important pod of each is
put back or not, then the second… The dry run is the definition of both.

Used by `candidates` only. Exact below 2^53; the caller keeps away larger amounts (`Snapshot.wide_resources`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

import numpy as np

from scheduler.framework.preemption.budgets import Budgets
from scheduler.framework.preemption.choice import ABOVE_ALL_PRIORITIES, Badness
from scheduler.framework.preemption.dry_run import Candidate, by_importance, candidate, start_time
from scheduler.snapshot.columns import Codes, Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Nodes, Snapshot

#: priorities of preemptors whose sums are kept; each costs a few vectors and a microsecond a pod event
MAX_THRESHOLDS = 8

PODS = "pods"
#: rows of `Ranked.columns`
PRIORITY, START, AMOUNTS = range(3)
#: resource -> sum per row; "pods" counts them
Sums = dict[str, Vector]


class LowerPods:
    """What the pods below some priorities request, per row. Owner: the snapshot, which reports every change."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        #: priority of a preemptor -> sums of what is below it, least recently used first
        self._below: OrderedDict[int, Sums] = OrderedDict()
        self._ranked: dict[int, Ranked] = {}
        self._resources = snapshot.resource_index

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """A row may have got another node; a new one may be beyond the ends of the vectors."""
        self._ranked.pop(row, None)
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
        if self._resources is not self._snapshot.resource_index:
            self._forget()
        sums = self._below.get(priority)
        if sums is None:
            sums = self._below[priority] = self._sum_up(priority)
            if len(self._below) > MAX_THRESHOLDS:
                self._below.popitem(last=False)
        self._below.move_to_end(priority)
        return sums

    def _forget(self) -> None:
        """The snapshot has forgotten resources: columns of ranked pods are others, and sums of theirs of no use."""
        self._below.clear()
        self._ranked.clear()
        self._resources = self._snapshot.resource_index

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

    def ranked(self, rows: Codes) -> list[Ranked]:
        """The pods of each row, the most important first."""
        known = self._ranked
        found = list(map(known.get, rows.tolist()))
        for i, ranked in enumerate(found):
            if ranked is None or len(ranked.columns) != len(self._snapshot.resource_index) + AMOUNTS:
                row = int(rows[i])
                found[i] = known[row] = self._rank(self._snapshot.nodes.info(row))
        return cast("list[Ranked]", found)

    def _rank(self, node: NodeInfo) -> Ranked:
        pods = by_importance(node.pods.values())
        resources = list(self._snapshot.resource_index)[1:]
        columns = [
            (pod.priority, start_time(pod), 1, *(pod.requests.get(name, 0) for name in resources)) for pod in pods
        ]
        shape = (len(pods), AMOUNTS + len(self._snapshot.resource_index))
        return Ranked(node.name, pods, np.array(columns, np.float64).reshape(shape).T)


class Ranked(NamedTuple):
    """The pods of a node by importance, and as columns: priority, start, then amounts as in the snapshot."""

    name: str
    pods: list[PodInfo]
    #: `(2 + resources, pods)`; the first resource is "pods", of which each takes one
    columns: Vector


class Room:
    """The room that evicting all pods of lower priority would make, for one pod on all rows. Lives for one search."""

    def __init__(self, nodes: Nodes, needed: Mapping[str, int], priority: int) -> None:
        snapshot = nodes.snapshot
        self._snapshot = snapshot
        self._index = snapshot.index(LowerPods)
        #: rows of `Ranked.columns` that hold the needed resources; one that no node has heard of is in no column
        self._columns = [AMOUNTS + snapshot.resource_index[name] for name in needed if name in snapshot.resource_index]
        sums = self._index.below(priority)
        self._number: Vector = sums[PODS][: nodes.size]
        #: `(needed, size)` what is left of the needed resources with the pod there and all lower ones gone
        self._spare = np.empty((len(needed), nodes.size))
        for i, (resource, amount) in enumerate(needed.items()):
            np.subtract(nodes.free(resource), amount, out=self._spare[i])
            if resource in sums:
                self._spare[i] += sums[resource][: nodes.size]
        self._lacking = self._spare < 0
        #: `(size,)` the pod would fit
        self.is_enough: Mask = np.logical_not(self._lacking.any(axis=0))

    def lacking_kinds(self, rows: Codes) -> Iterator[tuple[int, int]]:
        """(one row, number of rows) for each combination of resources that lack on these rows."""
        bits = (1 << np.arange(len(self._lacking))) @ self._lacking[:, rows]
        _, first, counts = np.unique(bits, return_index=True, return_counts=True)
        yield from zip(rows[first].tolist(), counts.tolist(), strict=True)

    def judge(self, rows: Codes, budgets: Budgets) -> Judged:
        """The victims on each of these rows, where the room is enough and there are lower pods."""
        ranked = self._index.ranked(rows)
        lower = self._number[rows].astype(np.intp)
        ends = np.cumsum([len(each.pods) for each in ranked])
        begins = ends - lower
        flat = np.concatenate([each.columns for each in ranked], axis=1)
        batch = Judged(ranked, begins, ends)
        protected = np.zeros(len(rows), np.intp)
        if budgets:
            for i, each in enumerate(ranked):
                here = each.pods[-int(lower[i]) :]
                violating, others = budgets.split(here)
                if violating:
                    protected[i] = len(violating)
                    batch.reordered[i] = [*violating, *others]
                    order = [begins[i] + here.index(pod) for pod in batch.reordered[i]]
                    flat[:, begins[i] : ends[i]] = flat[:, order]
        batch.is_victim = _put_back(flat[self._columns], self._spare[:, rows], begins, lower)
        batch.badness = _badness(flat, begins, ends, protected, batch.is_victim)
        return batch


class Judged:
    """Candidates of one batch, not spelled out before somebody wants one. Owner: the search."""

    def __init__(self, ranked: list[Ranked], begins: Codes, ends: Codes) -> None:
        self._ranked = ranked
        self._begins = begins
        self._ends = ends
        #: the lower pods of those candidates where they were not put back in order of importance
        self.reordered: dict[int, list[PodInfo]] = {}
        #: `(pods,)` over the pods of all candidates, those of each between its begin and its end
        self.is_victim: Mask
        self.badness: list[Badness]

    def candidate(self, i: int) -> Candidate:
        """The i-th candidate in full."""
        is_victim = self.is_victim[self._begins[i] : self._ends[i]].tolist()
        pods = self.reordered.get(i) or self._ranked[i].pods[-len(is_victim) :]
        victims = [pod for pod, gone in zip(pods, is_victim, strict=True) if gone]
        return candidate(self._ranked[i].name, victims, int(self.badness[i][0]))


def _put_back(amounts: Vector, spare: Vector, begins: Codes, counts: Codes) -> Mask:
    """Which pods cannot be put back. `amounts` `(resources, pods)`, `spare` `(resources, nodes)` is used up."""
    is_victim = np.zeros(amounts.shape[1], np.bool_)
    left = np.arange(len(begins))
    for rank in range(int(counts.max(initial=0))):
        left = left[counts[left] > rank]
        at = begins[left] + rank
        after = spare[:, left] - amounts[:, at]
        fits = (after >= 0).all(axis=0)
        is_victim[at] = ~fits
        spare[:, left[fits]] = after[:, fits]
    return is_victim


def _badness(flat: Vector, begins: Codes, ends: Codes, protected: Codes, is_victim: Mask) -> list[Badness]:
    """`choice.badness` of each node; only victims count, and each node has one."""
    at = is_victim.nonzero()[0]
    node = np.searchsorted(ends, at, side="right")
    count = np.bincount(node, minlength=len(ends))
    first = np.cumsum(count) - count
    priority, started = flat[PRIORITY, at], flat[START, at]
    highest = np.maximum.reduceat(priority, first)
    criteria = (
        np.bincount(node, at - begins[node] < protected[node], len(ends)),
        highest,
        np.bincount(node, priority + ABOVE_ALL_PRIORITIES, len(ends)),
        count,
        -np.minimum.reduceat(np.where(priority == highest[node], started, np.inf), first),
    )
    return list(zip(*(each.tolist() for each in criteria), strict=True))


def _sum_by_row(rows: Codes, amounts: Vector, size: int) -> Vector:
    return np.bincount(rows, weights=amounts, minlength=size).astype(np.float64, copy=False)
