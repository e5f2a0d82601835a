"""RowWriter: how a node, and what pods on it request, becomes numbers in columns; and how what is gone is forgotten.

Tables that turn names into places and codes (resources, labels, taints) only grow while nodes and pods come and go, so
each has a bound at which it is made anew from what is there.

Base of `Snapshot`, its one owner, which decides what is written and when.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import DTypeLike

from kube.api.core import Taint
from scheduler.snapshot.columns import EXACT_LIMIT, FIRST_RESOURCES, WHOLE_LIMIT, Columns, LabelValues
from scheduler.snapshot.interning import Interner
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.row_data import OwnColumn

#: sets of taints that may be remembered beyond twice those that nodes have
SPARE_TAINT_SETS = 64
#: keys of labels that have columns; of more, those go that were not asked for the longest
MAX_LABELS = 256
#: resources that may be remembered beyond twice those that nodes and pods on them have
SPARE_RESOURCES = 32


class RowWriter:
    """The columns and what they are made with. Owner: Snapshot, its one subclass."""

    def __init__(self) -> None:
        self.infos: list[NodeInfo | None] = []
        #: counts refreshes that changed something; `row_version[row]` is the one that last touched the row
        self.version = 0
        #: the version at which a node object (not only its pods) last changed
        self.node_epoch = 0
        #: replaced when old resources are forgotten: whoever keeps places by it looks whether it is still the same one
        self.resource_index: dict[str, int] = {name: i for i, name in enumerate(FIRST_RESOURCES)}
        self._most_resources = len(FIRST_RESOURCES) + SPARE_RESOURCES
        #: resources with a value too large for exact float64 division
        self.wide_resources: set[str] = set()
        #: those of them with a value that float64 may not even hold
        self.huge_resources: set[str] = set()
        #: replaced when old sets are forgotten: whoever keeps something by code looks whether it is still the same one
        self.taint_sets: Interner[tuple[Taint, ...]] = Interner(())
        self._most_taint_sets = SPARE_TAINT_SETS
        #: those that were asked for last at the end
        self.label_values: OrderedDict[str, LabelValues] = OrderedDict()
        self._own: list[OwnColumn] = []
        self._columns = Columns()
        #: the columns by name, `(…, size)`
        self.trimmed: dict[str, Any] = self._columns.trimmed
        count = len(FIRST_RESOURCES)
        for name in ("allocatable", "requested", "free"):
            self._columns.add(name, np.float64, (count,))
        self._columns.add("non_zero", np.float64, (2,))
        self._columns.add("alive", np.bool_)
        self._columns.add("unschedulable", np.bool_, fill=True)
        self._columns.add("taints", np.intp)
        self._columns.add("row_version", np.int64)

    @property
    def size(self) -> int:
        """Number of rows, free ones included."""
        return self._columns.size

    def node_infos(self) -> Iterator[NodeInfo]:
        """All nodes, in row order."""
        return (info for info in self.infos if info is not None)

    def label(self, key: str) -> LabelValues:
        """The values of a label key; its column exists from the first question on."""
        label = self.label_values.get(key)
        if label is None:
            label = self.label_values[key] = LabelValues(key)
            self._columns.add(label.column, np.intp)
            codes = self.trimmed[label.column]
            for row, info in enumerate(self.infos):
                if info is not None:
                    codes[row] = label.code(info.labels.get(key))
        self.label_values.move_to_end(key)
        return label

    def add_column(self, name: str, function: Callable[[NodeInfo], float], dtype: DTypeLike, *, by_pods: bool) -> str:
        """Keep a column by a function of the node (`by_pods`: and of the pods on it); gives its key for `column`."""
        key = f"own:{name}"
        if key in self.trimmed:
            raise ValueError(f"there is a column {name!r} already")
        column = OwnColumn(key, function, by_pods)
        self._columns.add(key, dtype)
        values = self.trimmed[key]
        for info in self.node_infos():
            values[info.row] = column.value(info)
        self._own.append(column)
        return key

    def forget_answers(self) -> None:
        """Something beside nodes and pods changed that answers kept per pod shape depend on: none of them hold."""
        self.version += 1
        self.node_epoch = self.version

    # --- writing ------------------------------------------------------------------------------------------

    def _write_row(self, row: int, info: NodeInfo, *, node_changed: bool, amounts: bool) -> None:
        if node_changed:
            self._write_node(row, info)
        if amounts:
            if node_changed:
                self.trimmed["allocatable"][:, row] = [info.allocatable.get(name, 0) for name in self.resource_index]
            self._write_pods(row, info)
        for own in self._own:
            if node_changed or own.by_pods:
                self.trimmed[own.key][row] = own.value(info)

    def _clear_row(self, row: int) -> None:
        columns = self.trimmed
        for name in ("allocatable", "requested", "free", "non_zero"):
            columns[name][:, row] = 0
        columns["alive"][row] = False
        columns["unschedulable"][row] = True
        columns["taints"][row] = 0
        for label in self.label_values.values():
            columns[label.column][row] = LabelValues.ABSENT
        for own in self._own:
            columns[own.key][row] = 0

    def _write_node(self, row: int, info: NodeInfo) -> None:
        node = info.node
        assert node is not None, "only nodes with an object have a row"
        for name, amount in info.allocatable.items():
            if name not in self.resource_index:
                self._add_resource(name)
            if amount >= EXACT_LIMIT:
                self.wide_resources.add(name)
            if amount >= WHOLE_LIMIT:
                self.huge_resources.add(name)
        columns = self.trimmed
        columns["alive"][row] = True
        columns["unschedulable"][row] = node.spec.unschedulable
        columns["taints"][row] = self.taint_sets.code(_without_times(node.spec.taints))
        labels = info.labels
        for label in self.label_values.values():
            columns[label.column][row] = label.code(labels.get(label.key))

    def _write_pods(self, row: int, info: NodeInfo) -> None:
        if not info.requested.keys() <= self.resource_index.keys():
            for name in info.requested.keys() - self.resource_index.keys():
                self._add_resource(name)
        columns = self.trimmed
        requested, free, non_zero = columns["requested"], columns["free"], columns["non_zero"]
        # One number after the other: a column of a matrix is dearer to write than its few numbers.
        for name, i in self.resource_index.items():
            amount = info.requested.get(name, 0)
            requested[i, row] = amount
            free[i, row] = info.allocatable.get(name, 0) - amount
        non_zero[0, row] = info.non_zero_cpu
        non_zero[1, row] = info.non_zero_memory

    def _write_amounts(self, infos: list[NodeInfo]) -> None:
        """What nodes offer and pods request, of many rows, as after the first list: one write a column."""
        for name in {name for info in infos for name in info.requested} - self.resource_index.keys():
            self._add_resource(name)
        columns, names = self.trimmed, (*self.resource_index,)
        rows = np.array([info.row for info in infos], np.intp)
        offered = np.array([[info.allocatable.get(name, 0) for name in names] for info in infos], np.float64).T
        requested = np.array([[info.requested.get(name, 0) for name in names] for info in infos], np.float64).T
        columns["allocatable"][:, rows] = offered
        columns["requested"][:, rows] = requested
        columns["free"][:, rows] = offered - requested
        columns["non_zero"][:, rows] = np.array([(i.non_zero_cpu, i.non_zero_memory) for i in infos], np.float64).T

    def _add_resource(self, name: str) -> None:
        self.resource_index[name] = len(self.resource_index)
        for column in ("allocatable", "requested", "free"):
            self._columns.widen(column, len(self.resource_index))

    # --- forgetting ---------------------------------------------------------------------------------------

    def _forget_what_is_gone(self) -> None:
        """After a write."""
        if self.node_epoch == self.version:
            self._forget_old_label_values()
        if len(self.taint_sets.values) > self._most_taint_sets:
            self._forget_old_taint_sets()
        if len(self.resource_index) > self._most_resources:
            self._forget_old_resources()

    def _forget_old_label_values(self) -> None:
        """Nodes come and go: a hostname column that remembers many more values than there are nodes is rebuilt."""
        for key, label in list(self.label_values.items()):
            if len(label.values) > 4 * self.size + 1024:
                self._columns.drop(label.column)
                del self.label_values[key]
                self.node_epoch = self.version

    def _forget_old_labels(self) -> None:
        """Pods may ask for labels that only their own job's nodes have: each such key would stay a column for ever."""
        if len(self.label_values) <= MAX_LABELS:
            return
        while len(self.label_values) > MAX_LABELS // 2:
            _, label = self.label_values.popitem(last=False)
            self._columns.drop(label.column)
        self.forget_answers()

    def _forget_old_resources(self) -> None:
        """Device plugins may name a resource after a device: those that nobody offers or requests any more go."""
        infos = list(self.node_infos())
        live = {name for info in infos for name in (*info.allocatable, *info.requested)}.difference(FIRST_RESOURCES)
        self.resource_index = {name: i for i, name in enumerate((*FIRST_RESOURCES, *sorted(live)))}
        self._most_resources = 2 * len(self.resource_index) + SPARE_RESOURCES
        for column in ("allocatable", "requested", "free"):
            self._columns.drop(column)
            self._columns.add(column, np.float64, (len(self.resource_index),))
        if infos:
            self._write_amounts(infos)
        self.node_epoch = self.version

    def _forget_old_taint_sets(self) -> None:
        """Autoscalers write times into the taints of nodes that they take away: sets that no node has any more go."""
        self.taint_sets = Interner(())
        codes = self.trimmed["taints"]
        for row, info in enumerate(self.infos):
            if info is not None and info.node is not None:
                codes[row] = self.taint_sets.code(_without_times(info.node.spec.taints))
        self._most_taint_sets = 2 * len(self.taint_sets) + SPARE_TAINT_SETS
        self.node_epoch = self.version


def _without_times(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """When a taint was added changes no decision, and would make every set of them a new one."""
    return tuple(msgspec.structs.replace(taint, time_added=None) if taint.time_added else taint for taint in taints)
