"""What is known of the nodes of a preemption before any of them takes a dry run, for all of them at once.

Bare nodes hold no pod of lower priority. On short ones the room of all lower pods is not enough. On settled ones the
pods that could leave mean nothing to the filter that refused the node, so it will refuse again. The others are worth a
dry run; which filters it has to ask depends on who refused the node and on the pods there.

Used by `candidates` only; lives for one search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis, Refused
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import FilterPlugin
from scheduler.framework.preemption.room import PODS, LowerPods, Room
from scheduler.framework.status import Code, Status
from scheduler.snapshot.columns import Codes, Mask
from scheduler.snapshot.pod_info import PodShape


class Prospects:
    """The nodes refused as exactly Unschedulable. All arrays are `(rows,)` in one order."""

    def __init__(self, handle: Handle, state: CycleState, diagnosis: Diagnosis) -> None:
        self._snapshot = handle.snapshot
        self._state = state
        self._refused = list(diagnosis.refused_with(Code.UNSCHEDULABLE))
        self._active = handle.dry_run.active_filters(state)
        parts = [refused.rows for refused in self._refused]
        self.rows: Codes = np.concatenate([np.zeros(0, np.intp), *parts])
        #: no pod of lower priority
        self.bare: Mask = handle.snapshot.index(LowerPods).below(state.pod_info.priority)[PODS][self.rows] == 0
        #: the filters to ask in each group, and the group of each row
        self.filters = [self._filters_at_first(diagnosis, refused) for refused in self._refused]
        self.group: Codes = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        #: who refused the row, as an index of `_refused`
        self._refuser = self.group
        # Arithmetic and arrays know nothing of nominated pods: such nodes are asked in full.
        nominated = np.isin(self.rows, list(handle.dry_run.nominated_rows(state.pod_info)))
        self.room = self._measure()
        by_room = self._in_groups([self._needed(filters) is not None for filters in self.filters]) & ~nominated
        #: not enough room even without any lower pod
        self.short: Mask = by_room & ~self.bare & ~self._has_room()
        self.settled: Mask = np.zeros(len(self.rows), np.bool_)
        if diagnosis.pre_filter is None:
            self._ask_less(np.logical_not(nominated | self.bare | self.short))
        #: the room decides alone
        self.by_room_alone: Mask = self._in_groups([self._is_room_alone(f) for f in self.filters]) & ~nominated

    def _filters_at_first(self, diagnosis: Diagnosis, refused: Refused) -> list[FilterPlugin]:
        """Where PreFilter refused, no filter was asked yet."""
        return list(self._active) if diagnosis.pre_filter else filters_to_ask(self._active, refused.plugin)

    def _in_groups(self, those: list[bool]) -> Mask:
        mask: Mask = np.array(those, np.bool_)[self.group]
        return mask

    # --- room ---------------------------------------------------------------------------------------------

    def _needed(self, filters: Sequence[FilterPlugin]) -> Mapping[str, int] | None:
        """What the first filter to ask needs, where that is all it looks at and exact in float64."""
        needed = filters[0].room_needed(self._state) if filters else None
        return needed if needed and self._snapshot.wide_resources.isdisjoint(needed) else None

    def _measure(self) -> Room | None:
        needed = next((n for filters in self.filters if (n := self._needed(filters)) is not None), None)
        return Room(self._snapshot.nodes, needed, self._state.pod_info.priority) if needed is not None else None

    def _has_room(self) -> Mask:
        return self.room.is_enough[self.rows] if self.room is not None else np.ones(len(self.rows), np.bool_)

    def _is_room_alone(self, filters: Sequence[FilterPlugin]) -> bool:
        return len(filters) == 1 and self._needed(filters) is not None

    # --- asking less --------------------------------------------------------------------------------------

    def _ask_less(self, worth: Mask) -> None:
        """Filters that the pods of a node mean nothing to say there what they said of the whole cluster."""
        for g, refused in enumerate(self._refused):
            at = (worth & (self._refuser == g)).nonzero()[0]
            if not len(at) or self._is_room_alone(self.filters[g]):
                continue
            concerned = self._concerned(at)
            asked, settled = self._questions(refused.plugin, self.rows[at], concerned)
            self.settled[at[settled]] = True
            self.group = self.group.copy()
            for questions in np.unique(asked[~settled]).tolist():
                self.group[at[asked == questions]] = len(self.filters)
                self.filters.append([p for i, p in enumerate(self._active) if questions >> i & 1])

    def _concerned(self, at: Codes) -> Codes:
        """A bit for each active filter that the lower pods of the row mean something to."""
        bits = _Concerned(self._active, self._state)
        priority = self._state.pod_info.priority
        concerned = np.zeros(len(at), np.int64)
        for i, row in enumerate(self.rows[at].tolist()):
            mine = 0
            for pod in self._snapshot.nodes.info(row).pods.values():
                if pod.priority < priority:
                    mine |= bits[pod.shape]
            concerned[i] = mine
        return concerned

    def _questions(self, refused_by: str, rows: Codes, concerned: Codes) -> tuple[Codes, Mask]:
        """(a bit for each filter to ask, where the refusal stands) for rows that one filter refused."""
        first = _position(self._active, refused_by)
        asked = np.zeros(len(rows), np.int64)
        settled = np.zeros(len(rows), np.bool_)
        for i, plugin in enumerate(self._active):
            may_change: Mask = (concerned >> i & 1).astype(np.bool_)
            if i < first:
                needed = may_change & (not plugin.fewer_pods_help)
            elif i == first:
                settled = ~may_change & (asked == 0)
                needed = np.ones(len(rows), np.bool_)
            else:
                needed = may_change | ~self._passed(plugin, rows)
            asked |= needed.astype(np.int64) << i
        return asked, settled

    def _passed(self, plugin: FilterPlugin, rows: Codes) -> Mask:
        """Where the filter lets the nodes pass as they are; one that costs a lot per node is left to the dry run."""
        if plugin.sparse or plugin.is_scalar():
            return np.zeros(len(rows), np.bool_)
        mask = plugin.filter(self._state, self._state.pod_info.pod, self._snapshot.select(rows))
        if mask is None:
            return np.ones(len(rows), np.bool_)
        return np.zeros(len(rows), np.bool_) if isinstance(mask, Status) else mask

    # --- why not ------------------------------------------------------------------------------------------

    def standing_refusals(self) -> Iterator[tuple[Status, int]]:
        """(status, number of settled rows) of those that refuse whoever leaves."""
        first = 0
        for refused in self._refused:
            settled = self.settled[first : first + len(refused.rows)]
            first += len(refused.rows)
            for status, which in zip(refused.refusals.statuses, range(len(refused.refusals.statuses)), strict=True):
                number = int(np.count_nonzero(settled & (refused.refusals.which == which)))
                if number:
                    yield status, number

    def short_kinds(self) -> Iterator[tuple[int, int, int]]:
        """(group, one row, number of rows) of the short rows, for each combination of resources that lack."""
        if self.room is None:
            return
        for group in range(len(self.filters)):
            rows = self.rows[self.short & (self.group == group)]
            for row, number in self.room.lacking_kinds(rows):
                yield group, row, number


class _Concerned(dict[PodShape, int]):
    """shape -> a bit for each filter that a pod of the shape means something to, found when asked for."""

    def __init__(self, active: Sequence[FilterPlugin], state: CycleState) -> None:
        super().__init__()
        self._active = active
        self._state = state

    def __missing__(self, shape: PodShape) -> int:
        bits = sum(plugin.concerned_by(self._state, shape) << i for i, plugin in enumerate(self._active))
        self[shape] = bits
        return bits


def filters_to_ask(active: Sequence[FilterPlugin], refused_by: str) -> list[FilterPlugin]:
    """The filters a dry run on a node refused by that plugin has to ask, in order, whatever pods are there.

    Those before it let the node pass, so of them only such matter as may think otherwise once pods are gone. Where it
    is no filter (an extender), all filters let the node pass.
    """
    first = _position(active, refused_by)
    return [p for i, p in enumerate(active) if i >= first or (p.depends_on_pods and not p.fewer_pods_help)]


def _position(active: Sequence[FilterPlugin], name: str) -> int:
    return next((i for i, plugin in enumerate(active) if plugin.name == name), len(active))
