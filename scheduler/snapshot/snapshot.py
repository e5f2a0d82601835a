"""Snapshot: what a scheduling cycle sees of the nodes, as columns.

The cache reports every change of a node or of the pods on it; `refresh()` copies the rows that changed from
their NodeInfo into the columns. A cycle begins with a refresh and never awaits, so it sees one state throughout.
`row_version` tells later cycles which rows changed since they last looked.

Owner: SchedulerCache (it alone calls the methods under "reported by the cache"). Plugins read `Nodes` views.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from scheduler.snapshot.columns import (
    Codes,
    Mask,
    Vector,
)
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo, ShapeTable
from scheduler.snapshot.row_data import PodRowIndex, RowIndex
from scheduler.snapshot.row_writer import RowWriter

#: changes that are remembered one by one
RECENT = 256
#: above this many rows their amounts are written all at once
FEW_ROWS = 32


I = TypeVar("I", bound=RowIndex)  # noqa: E741


class Snapshot(RowWriter):
    """Nodes as columns. Amounts are whole numbers in float64 (exact below 2^53)."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes = ShapeTable()
        self.row_of: dict[str, int] = {}
        #: (version, row) of the latest changes
        self._recent: deque[tuple[int, int]] = deque(maxlen=RECENT)
        self._free_rows: list[int] = []
        self._dirty: dict[int, bool] = {}
        self._indexes: dict[type[Any], RowIndex] = {}
        #: those of them that are told of pods
        self._pod_indexes: list[PodRowIndex] = []
        self.nodes = Nodes(self, None)
        self._every_row: Codes = np.arange(0)

    # --- what cycles read ---------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of nodes."""
        return len(self.row_of)

    @property
    def stale(self) -> bool:
        """Whether something was reported that the columns do not show yet."""
        return bool(self._dirty)

    def select(self, rows: Codes) -> Nodes:
        """A view of some rows."""
        return Nodes(self, rows)

    def every_row(self) -> Codes:
        """`(size,)` the rows in order; shared, so nobody writes to it."""
        if len(self._every_row) != self.size:
            self._every_row = np.arange(self.size)
        return self._every_row

    def info(self, name: str) -> NodeInfo | None:
        """The node of that name."""
        row = self.row_of.get(name)
        return None if row is None else self.infos[row]

    def changed_since(self, version: int) -> Codes:
        """Rows whose node or pods changed after that version."""
        changed: Codes = (self.trimmed["row_version"] > version).nonzero()[0]
        return changed

    def few_changed_since(self, version: int, limit: int) -> set[int] | None:
        """The same rows where they are few; None where there are more than `limit`, or nobody remembers."""
        rows: set[int] = set()
        for changed, row in reversed(self._recent):
            if changed <= version:
                return rows
            rows.add(row)
            if len(rows) > limit:
                return None
        return None

    def index(self, kind: type[I]) -> I:
        """The snapshot's one index of that kind; the first call builds it from what is there."""
        found = self._indexes.get(kind)
        if found is None:
            found = self._indexes[kind] = kind(self)  # type: ignore[call-arg]
            for info in self.node_infos():
                found.node_changed(info.row, info)
            if isinstance(found, PodRowIndex):
                self._pod_indexes.append(found)
                for info in self.node_infos():
                    for pod in info.pods.values():
                        found.pod_added(info.row, pod)
        return found  # type: ignore[return-value]

    # --- reported by the cache ----------------------------------------------------------------------------

    def add_node(self, info: NodeInfo) -> None:
        """Give a node its row. Pods already on it (a ghost that came back) are counted."""
        row = self._free_rows.pop() if self._free_rows else self._columns.next_row()
        if row == len(self.infos):
            self.infos.append(info)
        else:
            self.infos[row] = info
        info.row = row
        self.row_of[info.name] = row
        self.node_changed(info)
        for pod in info.pods.values():
            self._each_pod_added(row, pod)

    def node_changed(self, info: NodeInfo) -> None:
        """Labels, taints, allocatable or anything else of the node object changed."""
        self._dirty[info.row] = True
        for index in self._indexes.values():
            index.node_changed(info.row, info)

    def touch(self, name: str) -> None:
        """What plugins know of a node beside the node itself changed: their columns and kept answers do not hold."""
        row = self.row_of.get(name)
        if row is not None:
            self._dirty[row] = True

    def remove_node(self, info: NodeInfo) -> None:
        """Free the row of a node that is gone. It must not be found again under its old values."""
        row = info.row
        for pod in info.pods.values():
            for pod_index in self._pod_indexes:
                pod_index.pod_removed(row, pod)
        for index in self._indexes.values():
            index.node_changed(row, None)
        del self.row_of[info.name]
        self.infos[row] = None
        info.row = -1
        self._free_rows.append(row)
        self._dirty[row] = True

    def pod_added(self, info: NodeInfo, pod: PodInfo) -> None:
        """A pod was added to a node that has a row."""
        self._dirty.setdefault(info.row, False)
        self._each_pod_added(info.row, pod)

    def pod_removed(self, info: NodeInfo, pod: PodInfo) -> None:
        """A pod was removed from a node that has a row."""
        self._dirty.setdefault(info.row, False)
        for index in self._pod_indexes:
            index.pod_removed(info.row, pod)

    def pod_confirmed(self, info: NodeInfo, assumed: PodInfo, confirmed: PodInfo) -> None:
        """A pod is what it was assumed to be: indexes get the new object, but the row has not changed."""
        for index in self._pod_indexes:
            index.pod_removed(info.row, assumed)
        self._each_pod_added(info.row, confirmed)
        if any(own.by_pods for own in self._own):
            self._dirty.setdefault(info.row, False)

    def _each_pod_added(self, row: int, pod: PodInfo) -> None:
        for index in self._pod_indexes:
            index.pod_added(row, pod)

    def refresh(self) -> None:
        """Copy the rows that changed. Cost follows the changes, not the cluster."""
        if self._dirty:
            self._write_changes()
        self._forget_old_labels()

    def _write_changes(self) -> None:
        self.version += 1
        versions, at_once = self.trimmed["row_version"], len(self._dirty) > FEW_ROWS
        for row, node_changed in self._dirty.items():
            versions[row] = self.version
            self._recent.append((self.version, row))
            info = self.infos[row]
            if info is None:
                self._clear_row(row)
            else:
                self._write_row(row, info, node_changed=node_changed, amounts=not at_once)
            if node_changed:
                self.node_epoch = self.version
        if at_once:
            self._write_amounts([info for row in self._dirty if (info := self.infos[row]) is not None])
        self._dirty.clear()
        self._forget_what_is_gone()

    # --- for tests and the debugger -----------------------------------------------------------------------

    def validate(self) -> list[str]:
        """What disagrees between NodeInfos and columns after a refresh; empty when all is well."""
        self.refresh()
        problems = []
        columns = self.trimmed
        for row, info in enumerate(self.infos):
            if info is None:
                if columns["alive"][row]:
                    problems.append(f"row {row} is free but alive")
                continue
            if self.row_of.get(info.name) != row or info.row != row:
                problems.append(f"{info.name} is not at row {row}")
            for name, i in self.resource_index.items():
                if columns["requested"][i, row] != info.requested.get(name, 0):
                    problems.append(f"{info.name}: requested {name} is stale")
                if columns["allocatable"][i, row] != info.allocatable.get(name, 0):
                    problems.append(f"{info.name}: allocatable {name} is stale")
            problems += [
                f"{info.name}: column {own.key} is stale"
                for own in self._own
                if columns[own.key][row] != np.asarray(own.value(info), columns[own.key].dtype)
            ]
        return problems


class Nodes:
    """A view of the snapshot's rows: all of them, or some. What a vectorised plugin works on.

    All arrays have the view's `size` as their last dimension and are read-only by convention.
    """

    __slots__ = ("_taken", "rows", "snapshot")

    def __init__(self, snapshot: Snapshot, rows: Codes | None) -> None:
        self.snapshot = snapshot
        #: `(size,)` rows of the snapshot in view order, None for all rows
        self.rows = rows
        self._taken: dict[str, Any] = {}

    @property
    def size(self) -> int:
        """Length of every column of this view."""
        return self.snapshot.size if self.rows is None else len(self.rows)

    def column(self, name: str) -> Any:
        """A column by name, `(…, size)`."""
        if self.rows is None:
            return self.snapshot.trimmed[name]
        column = self._taken.get(name)
        if column is None:
            column = self._taken[name] = self.snapshot.trimmed[name].take(self.rows, axis=-1)
        return column

    def gather(self, full: Any) -> Any:
        """What belongs to this view of an array over all rows."""
        return full if self.rows is None else full.take(self.rows, axis=-1)

    @property
    def all(self) -> Mask:
        """`(size,)` bool, True for each row that holds a node; a fresh array that the caller may change."""
        alive: Mask = self.column("alive").copy()
        return alive

    @property
    def none(self) -> Mask:
        """`(size,)` bool, all False."""
        return np.zeros(self.size, np.bool_)

    @property
    def zeros(self) -> Vector:
        """`(size,)` float64, all 0."""
        return np.zeros(self.size)

    @property
    def unschedulable(self) -> Mask:
        """`(size,)` bool: cordoned."""
        column: Mask = self.column("unschedulable")
        return column

    @property
    def taints(self) -> Codes:
        """`(size,)` codes of `snapshot.taint_sets`."""
        column: Codes = self.column("taints")
        return column

    def _resource(self, column: str, resource: str) -> Vector:
        i = self.snapshot.resource_index.get(resource)
        if i is None:
            return self.zeros
        amounts: Vector = self.snapshot.trimmed[column][i] if self.rows is None else self.column(column)[i]
        return amounts

    def allocatable(self, resource: str) -> Vector:
        """`(size,)` allocatable amount: milliCPU, bytes, counts."""
        return self._resource("allocatable", resource)

    def requested(self, resource: str) -> Vector:
        """`(size,)` sum of the requests of the pods on the node."""
        return self._resource("requested", resource)

    def free(self, resource: str) -> Vector:
        """`(size,)` allocatable minus requested; negative on an overfull node."""
        return self._resource("free", resource)

    def non_zero(self, resource: str) -> Vector:
        """`(size,)` requests with the scoring defaults for containers that name none (facts 2.1); cpu or memory."""
        row: Vector = self.column("non_zero")[0 if resource == "cpu" else 1]
        return row

    def label_codes(self, key: str) -> Codes:
        """`(size,)` codes of the label's value, 0 where the node lacks it; values in `snapshot.label(key)`."""
        label = self.snapshot.label(key)
        codes: Codes = self.snapshot.trimmed[label.column] if self.rows is None else self.column(label.column)
        return codes

    def info(self, i: int) -> NodeInfo:
        """The NodeInfo at position i of this view."""
        info = self.snapshot.infos[i if self.rows is None else int(self.rows[i])]
        assert info is not None, "no node at that row"
        return info

    def infos(self) -> Iterator[tuple[int, NodeInfo]]:
        """(position, NodeInfo) of every node of this view."""
        rows = range(self.snapshot.size) if self.rows is None else self.rows.tolist()
        for i, row in enumerate(rows):
            info = self.snapshot.infos[row]
            if info is not None:
                yield i, info
