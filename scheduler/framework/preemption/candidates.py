"""The candidates of a preemption: nodes where evicting pods of lower priority makes room (facts 2.8, steps 2 to 4).

Only nodes refused as exactly Unschedulable are looked at, from a random start on, until there are enough candidates.
Nodes that are hopeless by arithmetic are never walked to; why they are is asked of one node per kind, and only where
no candidate was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import FilterPlugin
from scheduler.framework.preemption.dry_run import Budgets, Candidate
from scheduler.framework.preemption.room import Room
from scheduler.framework.status import Code, Status
from scheduler.snapshot.columns import Codes, Mask
from scheduler.snapshot.node_info import NodeInfo

NOT_HELPFUL = "Preemption is not helpful for scheduling"


def number_of_candidates(nodes: int, percentage: int, absolute: int) -> int:
    """How many candidates are enough, out of that many nodes."""
    return min(nodes, max(nodes * percentage // 100, absolute))


class Search:
    """One search for one pod. Owner: the evaluator; lives within a cycle."""

    def __init__(self, handle: Handle, state: CycleState, diagnosis: Diagnosis, budgets: Budgets) -> None:
        self._dry_run = handle.dry_run
        self._snapshot = handle.snapshot
        self._state = state
        self._budgets = budgets
        active = self._dry_run.active_filters(state)
        groups = list(diagnosis.refused_with(Code.UNSCHEDULABLE))
        self._filters = [filters_to_ask(active, plugin) for plugin, _ in groups]
        #: rows worth a look, and for each the index of its group in `_filters`
        self.rows: Codes = np.concatenate([np.zeros(0, np.intp), *(rows for _, rows in groups)])
        self._group_of = np.repeat(np.arange(len(groups)), [len(rows) for _, rows in groups])
        self._room, self._by_room = self._measure()
        #: reason -> nodes, and how many nodes were judged at all
        self._reasons: Counter[str] = Counter()
        self._judged = 0
        self.errors: list[Status] = []

    def _measure(self) -> tuple[Room | None, Mask]:
        """The room that eviction makes, and where it tells all there is to tell if it is not enough."""
        plain = np.ones(len(self.rows), np.bool_)
        needed = None
        for group, filters in enumerate(self._filters):
            needed_here = filters[0].room_needed(self._state) if filters else None
            if needed_here is None or not self._snapshot.wide_resources.isdisjoint(needed_here):
                plain[self._group_of == group] = False
            else:
                needed = needed_here
        if needed is None:
            return None, plain
        nominated = list(self._dry_run.nominated_rows(self._state.pod_info))
        if nominated:
            plain &= ~np.isin(self.rows, nominated)
        return Room(self._snapshot.nodes, needed, self._state.pod_info.priority), plain

    def run(self, start: int, wanted: int) -> list[Candidate]:
        """Walk from a start until `wanted` candidates are found and one of them violates no budget."""
        clean: list[Candidate] = []
        violating: list[Candidate] = []
        hopeless = self._hopeless()
        order = np.roll(np.arange(len(self.rows)), -start)
        order = order[~hopeless[order]]
        for found in map(self._judge, order.tolist(), self._spare(order)):
            if isinstance(found, Status):
                self._refuse(found)
                continue
            group = violating if found.violations else clean
            if len(group) < wanted:
                group.append(found)
            if clean and len(clean) + len(violating) >= wanted:
                break
        if not clean and not violating:
            self._explain(hopeless)
        return clean + violating

    def _hopeless(self) -> Mask:
        if self._room is None:
            return np.zeros(len(self.rows), np.bool_)
        helps = self._room.has_lower & self._room.is_enough
        return self._by_room & ~helps[self.rows]

    def _spare(self, order: Codes) -> Sequence[Sequence[float]] | object:
        raise NotImplementedError

    def _info(self, row: int) -> NodeInfo:
        info = self._snapshot.infos[row]
        assert info is not None, "the search outlived its snapshot"
        return info

    def _refuse(self, status: Status, nodes: int = 1) -> None:
        self._judged += nodes
        if status.code is Code.ERROR:
            self.errors.append(status)
        for reason in status.reasons:
            self._reasons[reason] += nodes


def filters_to_ask(active: Sequence[FilterPlugin], refused_by: str) -> list[FilterPlugin]:
    """The filters a dry run on a node refused by that plugin has to ask.

    Those before it let the node pass, so of them only such matter as look at the pods there. A refusal that is no
    filter's own (an extender's) leaves all filters passed; one by PreFilter came before any was asked.
    """
    raise NotImplementedError
