"""The candidates of a preemption: nodes where evicting pods of lower priority makes room (facts 2.8, steps 2 to 4).

Only nodes refused as exactly Unschedulable are looked at, from a random start on, until there are enough candidates.
Nodes that are known to be hopeless (`prospects`) are never walked to; why they are is asked of one node per kind, and
only where no candidate was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count, repeat

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.handle import Handle
from scheduler.framework.preemption.budgets import Budgets
from scheduler.framework.preemption.choice import Badness, badness
from scheduler.framework.preemption.dry_run import NO_VICTIMS, Candidate, select_victims
from scheduler.framework.preemption.prospects import Prospects
from scheduler.framework.preemption.room import Judged
from scheduler.framework.status import Code, Status
from scheduler.snapshot.columns import Codes

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
        self._prospects = Prospects(handle, state, diagnosis)
        #: reason -> nodes
        self._reasons: Counter[str] = Counter()
        self._refused = 0
        self.errors: list[Status] = []

    @property
    def size(self) -> int:
        """Number of nodes that preemption may look at."""
        return len(self._prospects.rows)

    # --- the walk -----------------------------------------------------------------------------------------

    def run(self, start: int, wanted: int) -> list[Found]:
        """Walk from a start until `wanted` candidates are found and one of them violates no budget."""
        clean: list[Found] = []
        violating: list[Found] = []
        prospects = self._prospects
        hopeless = prospects.bare | prospects.short | prospects.settled
        order = np.roll(np.arange(self.size), -start)
        order = order[~hopeless[order]]
        for first in range(0, len(order), max(wanted, 1)):
            for found in self._judge(order[first : first + wanted]):
                group = violating if found[0][0] else clean
                if len(group) < wanted:
                    group.append(found)
                if clean and len(clean) + len(violating) >= wanted:
                    return clean + violating
        if not clean and not violating:
            self._explain()
        return clean + violating

    def _judge(self, part: Codes) -> Iterator[Found]:
        """The candidates of a part of the walk, in order; what arithmetic can tell of it is told at once."""
        prospects = self._prospects
        by_room = prospects.by_room_alone[part]
        told: Iterator[Found] = iter(())
        if prospects.room is not None and by_room.any():
            judged = prospects.room.judge(prospects.rows[part[by_room]], self._budgets)
            told = zip(judged.badness, repeat(judged), count(), strict=False)
        for i, alone in zip(part.tolist(), by_room.tolist(), strict=True):
            if alone:
                yield next(told)
                continue
            answer = self._ask(int(prospects.rows[i]), int(prospects.group[i]))
            if isinstance(answer, Status):
                self._refuse(answer)
            else:
                yield badness(answer), answer, 0

    def _ask(self, row: int, group: int) -> Candidate | Status:
        info, filters = self._snapshot.nodes.info(row), self._prospects.filters[group]
        return select_victims(self._dry_run, self._state, info, filters, self._budgets)

    # --- why not ------------------------------------------------------------------------------------------

    def _explain(self) -> None:
        """Nodes that lack the same say the same: one of each kind is asked."""
        self._refuse(NO_VICTIMS, int(np.count_nonzero(self._prospects.bare)))
        for status, nodes in self._prospects.standing_refusals():
            self._refuse(status, nodes)
        for group, row, nodes in self._prospects.short_kinds():
            found = self._ask(row, group)
            assert isinstance(found, Status), "the arithmetic and the filter disagree"
            self._refuse(found, nodes)

    def _refuse(self, status: Status, nodes: int = 1) -> None:
        self._refused += nodes
        if status.code is Code.ERROR:
            self.errors.append(status)
        for reason in status.reasons:
            self._reasons[reason] += nodes

    def message(self) -> str:
        """The text of a search without candidates; nodes that were not worth a look count as not helpful."""
        nodes = self._snapshot.count
        reasons = self._reasons + Counter({NOT_HELPFUL: nodes - self._refused})
        entries = sorted(f"{count} {reason}" for reason, count in reasons.items())
        return f"0/{nodes} nodes are available: {', '.join(entries)}."
