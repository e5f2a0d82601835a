"""The candidates of a preemption: nodes where evicting pods of lower priority makes room (facts 2.8, steps 2 to 4).

Only nodes refused as exactly Unschedulable are looked at, from a random start on, until there are enough candidates.
Nodes that are hopeless by arithmetic are never walked to; why they are is asked of one node per kind, and only where
no candidate was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, repeat

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import FilterPlugin
from scheduler.framework.preemption.budgets import Budgets
from scheduler.framework.preemption.choice import Badness, badness
from scheduler.framework.preemption.dry_run import NO_VICTIMS, Candidate, select_victims
from scheduler.framework.preemption.room import Judged, Room
from scheduler.framework.status import Code, Status
from scheduler.snapshot.columns import Codes, Mask

NOT_HELPFUL = "Preemption is not helpful for scheduling"


def number_of_candidates(nodes: int, percentage: int, absolute: int) -> int:
    """How many candidates are enough, out of that many nodes."""
    return min(nodes, max(nodes * percentage // 100, absolute))


#: what speaks against a candidate, and the candidate: spelled out, or as the i-th of a batch
Found = tuple[Badness, Candidate | Judged, int]


def spell_out(found: Found) -> Candidate:
    """The candidate in full; to be asked for within the cycle that found it."""
    _, source, i = found
    return source.candidate(i) if isinstance(source, Judged) else source


class Search:
    """One search for one pod. Owner: the evaluator; lives within a cycle."""

    def __init__(self, handle: Handle, state: CycleState, diagnosis: Diagnosis, budgets: Budgets) -> None:
        self._dry_run = handle.dry_run
        self._snapshot = handle.snapshot
        self._state = state
        self._budgets = budgets
        groups = list(diagnosis.refused_with(Code.UNSCHEDULABLE))
        active = self._dry_run.active_filters(state)
        asked = diagnosis.pre_filter is None
        #: the filters to ask on the nodes of each group
        self._filters = [filters_to_ask(active, plugin) if asked else active for plugin, _ in groups]
        #: rows worth a look, and the group of each
        self.rows: Codes = np.concatenate([np.zeros(0, np.intp), *(rows for _, rows in groups)])
        self._group = np.repeat(np.arange(len(groups)), [len(rows) for _, rows in groups])
        needed = [self._needed(filters) for filters in self._filters]
        self._room = self._measure(needed)
        #: where the room decides first, and where it decides alone
        self._by_room = self._in_groups([each is not None for each in needed]) & ~self._nominated()
        self._by_room_alone = self._by_room & self._in_groups([len(filters) == 1 for filters in self._filters])
        #: reason -> nodes
        self._reasons: Counter[str] = Counter()
        self._judged = 0
        self.errors: list[Status] = []

    def _needed(self, filters: Sequence[FilterPlugin]) -> Mapping[str, int] | None:
        """What the first filter to ask needs, where that is all it looks at and exact in float64."""
        needed = filters[0].room_needed(self._state) if filters else None
        return needed if needed and self._snapshot.wide_resources.isdisjoint(needed) else None

    def _measure(self, needed: Iterable[Mapping[str, int] | None]) -> Room | None:
        known = next((each for each in needed if each is not None), None)
        return Room(self._snapshot.nodes, known, self._state.pod_info.priority) if known is not None else None

    def _in_groups(self, those: list[bool]) -> Mask:
        """Which rows are in those groups."""
        mask: Mask = np.array(those, np.bool_)[self._group]
        return mask

    def _nominated(self) -> Mask:
        """Which rows hold nominated pods that count: arithmetic does not know of them."""
        return np.isin(self.rows, list(self._dry_run.nominated_rows(self._state.pod_info)))

    # --- the walk -----------------------------------------------------------------------------------------

    def run(self, start: int, wanted: int) -> list[Found]:
        """Walk from a start until `wanted` candidates are found and one of them violates no budget."""
        clean: list[Found] = []
        violating: list[Found] = []
        hopeless = self._hopeless()
        order = np.roll(np.arange(len(self.rows)), -start)
        order = order[~hopeless[order]]
        for first in range(0, len(order), max(wanted, 1)):
            for found in self._judge(order[first : first + wanted]):
                group = violating if found[0][0] else clean
                if len(group) < wanted:
                    group.append(found)
                if clean and len(clean) + len(violating) >= wanted:
                    return clean + violating
        if not clean and not violating:
            self._explain(hopeless)
        return clean + violating

    def _hopeless(self) -> Mask:
        if self._room is None:
            return np.zeros(len(self.rows), np.bool_)
        helps = self._room.has_lower & self._room.is_enough
        return self._by_room & ~helps[self.rows]

    def _judge(self, part: Codes) -> Iterator[Found]:
        """The candidates of a part of the walk, in order; what arithmetic can tell of it is told at once."""
        by_room = self._by_room_alone[part]
        told: Iterator[Found] = iter(())
        if self._room is not None and by_room.any():
            judged = self._room.judge(self.rows[part[by_room]], self._budgets)
            told = zip(judged.badness, repeat(judged), count(), strict=False)
        for i, alone in zip(part.tolist(), by_room.tolist(), strict=True):
            if alone:
                yield next(told)
                continue
            answer = self._ask(int(self.rows[i]), int(self._group[i]))
            if isinstance(answer, Status):
                self._refuse(answer)
            else:
                yield badness(answer), answer, 0

    def _ask(self, row: int, group: int) -> Candidate | Status:
        info = self._snapshot.nodes.info(row)
        return select_victims(self._dry_run, self._state, info, self._filters[group], self._budgets)

    # --- why not ------------------------------------------------------------------------------------------

    def _explain(self, hopeless: Mask) -> None:
        """Nodes that lack the same say the same: one of each kind is asked."""
        room = self._room
        if room is None:
            return
        bare = hopeless & ~room.has_lower[self.rows]
        if bare.any():
            self._refuse(NO_VICTIMS, int(np.count_nonzero(bare)))
        short = hopeless & ~bare
        for group in range(len(self._filters)):
            rows = self.rows[short & (self._group == group)]
            for row, nodes in room.lacking_kinds(rows):
                found = self._ask(row, group)
                assert isinstance(found, Status), "the arithmetic and the filter disagree"
                self._refuse(found, nodes)

    def _refuse(self, status: Status, nodes: int = 1) -> None:
        self._judged += nodes
        if status.code is Code.ERROR:
            self.errors.append(status)
        for reason in status.reasons:
            self._reasons[reason] += nodes

    def message(self) -> str:
        """The text of a search without candidates; nodes that were not worth a look count as not helpful."""
        nodes = self._snapshot.count
        reasons = self._reasons + Counter({NOT_HELPFUL: nodes - self._judged})
        entries = sorted(f"{count} {reason}" for reason, count in reasons.items())
        return f"0/{nodes} nodes are available: {', '.join(entries)}."


def filters_to_ask(active: Sequence[FilterPlugin], refused_by: str) -> list[FilterPlugin]:
    """The filters a dry run on a node refused by that plugin has to ask, in order.

    Those before it let the node pass, so of them only such matter as may think otherwise once pods are gone. Where it
    is no filter (an extender), all filters let the node pass.
    """
    first = next((i for i, plugin in enumerate(active) if plugin.name == refused_by), len(active))
    return [p for i, p in enumerate(active) if i >= first or (p.depends_on_pods and not p.fewer_pods_help)]
