"""Diagnosis: why a pod fits nowhere, and the one line that says so.

Built from the filters' masks only when nobody fits or somebody asks. Rows are those of the snapshot the cycle
ran on, so a diagnosis is read before the next refresh, or turned into names (`node_statuses`) first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from scheduler.framework.refusals import Refusals
from scheduler.framework.status import Code, Status
from scheduler.snapshot.columns import Codes
from scheduler.snapshot.snapshot import Snapshot

NO_NODES = "no nodes available to schedule pods"


def refused_where_chosen(status: Status) -> str:
    """The FailedScheduling text of a pod whose node was refused after all, by Reserve or later: there was just one."""
    return f"0/1 nodes are available: {', '.join(sorted(f'1 {reason}' for reason in status.reasons))}."


@dataclass(frozen=True, slots=True)
class Refused:
    """The rows one plugin refused, and why."""

    plugin: str
    rows: Codes
    refusals: Refusals

    def statuses(self) -> Iterator[tuple[int, Status]]:
        """(row, status) of each."""
        for row, which in zip(self.rows.tolist(), self.refusals.which.tolist(), strict=True):
            yield row, self.refusals.statuses[which]


@dataclass(slots=True)
class Diagnosis:
    """Everything that refused a pod in one cycle."""

    snapshot: Snapshot
    node_count: int
    refused: list[Refused] = field(default_factory=list)
    #: a PreFilter rejection stands for all nodes
    pre_filter: Status | None = None
    #: rows outside the node set of PreFilter, and the status that stands for them
    absent: tuple[Codes, Status] | None = None
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    post_filter_message: str = ""

    def add_plugin_status(self, status: Status) -> None:
        """Remember who refused: the queue wakes the pod by that plugin's events."""
        if status.plugin and status.rejected:
            self.unschedulable_plugins.add(status.plugin)
            if status.code is Code.PENDING:
                self.pending_plugins.add(status.plugin)

    def add_refused(self, refused: Refused) -> None:
        """One plugin's refusals."""
        if len(refused.rows):
            self.refused.append(refused)
            for status in refused.refusals.statuses:
                self.add_plugin_status(status)

    def refused_with(self, code: Code) -> Iterator[Refused]:
        """What was refused with exactly that code; for Unschedulable the nodes preemption may look at."""
        if self.pre_filter is not None:
            if self.pre_filter.code is code:
                rows = self.snapshot.trimmed["alive"].nonzero()[0]
                refusals = Refusals((self.pre_filter,), np.zeros(len(rows), np.intp))
                yield Refused(self.pre_filter.plugin, rows, refusals)
            return
        for refused in self.refused:
            statuses, which = refused.refusals.statuses, refused.refusals.which
            has_code = np.array([s.code is code for s in statuses], np.bool_)
            if has_code.all():
                yield refused
            elif has_code.any():
                those = has_code[which]
                yield Refused(refused.plugin, refused.rows[those], Refusals(statuses, which[those]))

    def rows_with_code(self, code: Code) -> Codes:
        """All rows refused with exactly that code."""
        return np.concatenate([np.zeros(0, np.intp), *(refused.rows for refused in self.refused_with(code))])

    def code_of(self, row: int) -> Code:
        """The code a refused row was refused with; UnschedulableAndUnresolvable where nobody looked at it."""
        if self.pre_filter is not None:
            return self.pre_filter.code
        for refused in self.refused:
            at = (refused.rows == row).nonzero()[0]
            if len(at):
                return refused.refusals.statuses[int(refused.refusals.which[at[0]])].code
        return Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def node_statuses(self) -> dict[str, Status]:
        """node name -> status of every node that a plugin looked at and refused.

        Nodes outside PreFilter's node set were not looked at: `absent` stands for them, as in upstream's own map.
        """
        if self.pre_filter is not None:
            return {info.name: self.pre_filter for info in self.snapshot.node_infos()}
        return {self._name(row): status for refused in self.refused for row, status in refused.statuses()}

    def _name(self, row: int) -> str:
        info = self.snapshot.infos[row]
        assert info is not None, "the diagnosis outlived its snapshot"
        return info.name

    def histogram(self) -> Counter[str]:
        """reason -> number of nodes."""
        counts: Counter[str] = Counter()
        for refused in self.refused:
            per_status = np.bincount(refused.refusals.which, minlength=len(refused.refusals.statuses)).tolist()
            for status, count in zip(refused.refusals.statuses, per_status, strict=True):
                for reason in status.reasons:
                    counts[reason] += count
        if self.absent is not None:
            for reason in self.absent[1].reasons:
                counts[reason] += len(self.absent[0])
        return +counts

    def message(self) -> str:
        """The FailedScheduling text (facts 1.6); entries of the histogram sort as plain strings, counts first."""
        if self.node_count == 0:
            return NO_NODES
        text = f"0/{self.node_count} nodes are available:"
        if self.pre_filter is not None and self.pre_filter.message:
            text += f" {self.pre_filter.message}."
        else:
            entries = sorted(f"{count} {reason}" for reason, count in self.histogram().items())
            if entries:
                text += f" {', '.join(entries)}."
        if self.post_filter_message:
            text += f" {self.post_filter_message}"
        return text
