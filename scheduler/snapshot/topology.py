"""Topology: amounts per row, and their sums per domain.

A domain is the nodes that carry the same value of a topology key. `RowAmounts` holds how much of something is on
each row (pods that a selector means, weights of affinity terms) and adds it up per domain when it is asked. A sum
is kept and brought up to date with the rows that changed since; it is made anew when a node object changed.

Owner: the index that counts (PodIndex). Plugins read. Arrays handed out are shared: nobody writes to them.
Domain sums read the snapshot's label columns, so they may be asked only after a refresh.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

import numpy as np

from scheduler.snapshot.columns import Codes, LabelValues, Mask, Vector
from scheduler.snapshot.snapshot import Nodes, Snapshot

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: changes after which sums are made anew instead of patched: about what one bincount over 5,000 rows costs
MAX_LOG = 64
#: up to here a loop is faster than arrays
FEW_ROWS = 24
#: sums kept by one RowAmounts (topology keys, and masks of nodes that count)
MAX_SUMS = 16


class Recent(Generic[K, V]):
    """A map that knows which keys were asked for last. Its owner decides how many it keeps."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, or None; now the most recent."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Remember, as the most recent."""
        self._entries[key] = value
        self._entries.move_to_end(key)

    def pop(self, key: K) -> None:
        """Forget a key, known or not."""
        self._entries.pop(key, None)

    def pop_oldest(self) -> V:
        """Forget what was not asked for the longest, and return it."""
        return self._entries.popitem(last=False)[1]

    def __iter__(self) -> Iterator[V]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)


class DomainSums:
    """Amounts per domain of one topology key. Owner: RowAmounts; to be read in the cycle that asked."""

    __slots__ = ("_included", "_label", "_node_epoch", "position", "total", "values")

    def __init__(self, label: LabelValues, node_epoch: int, included: Mask | None, position: int) -> None:
        #: `(values of the label,)` by label code; entry 0, nodes without the label, is 0: they form no domain
        self.values: Vector = np.zeros(0)
        #: over all domains
        self.total = 0.0
        self._label = label
        self._node_epoch = node_epoch
        #: also keeps the mask alive, by whose identity these sums are found
        self._included = included
        #: entries of the log that are in
        self.position = position

    def is_current(self, label: LabelValues, node_epoch: int) -> bool:
        """Whether label codes are still the same."""
        return self._label is label and self._node_epoch == node_epoch and len(self.values) == len(label.values.values)

    def add_up(self, codes: Codes, amounts: Vector) -> None:
        """Make the sums from all rows."""
        weights = amounts if self._included is None else amounts * self._included
        sums = np.bincount(codes, weights, minlength=len(self._label.values.values))
        self.values = sums.astype(np.float64, copy=False)
        self.values[0] = 0
        self.total = float(self.values.sum())

    def catch_up(self, codes: Codes, log: list[tuple[int, float]]) -> None:
        """Add what the log says since the last time."""
        included = self._included
        for row, amount in log[self.position :]:
            code = codes[row]
            if code and (included is None or included[row]):
                self.values[code] += amount
                self.total += amount
        self.position = len(log)


class RowAmounts:
    """An amount per row. Owner: the index that adds to it."""

    __slots__ = ("_log", "_sums", "_values")

    def __init__(self, rows: int) -> None:
        self._values: Vector = np.zeros(max(rows, 64))
        self._log: list[tuple[int, float]] = []
        self._sums: dict[tuple[str, int], DomainSums] = {}

    def add(self, row: int, amount: float) -> None:
        """More (or less) on a row."""
        if row >= len(self._values):
            self._grow(row + 1)
        self._values[row] += amount
        if self._sums:
            self._log.append((row, amount))
            if len(self._log) > MAX_LOG:
                self._forget_sums()

    def add_rows(self, rows: Mapping[int, int], factor: int = 1) -> None:
        """More on many rows: factor times the number of each."""
        if not rows:
            return
        highest = max(rows)
        if highest >= len(self._values):
            self._grow(highest + 1)
        self._forget_sums()
        if len(rows) < FEW_ROWS:
            for row, number in rows.items():
                self._values[row] += factor * number
        else:
            numbers = np.fromiter(rows.values(), np.float64, len(rows))
            self._values[np.fromiter(rows.keys(), np.intp, len(rows))] += factor * numbers

    def _grow(self, rows: int) -> None:
        values = np.zeros(max(rows, 2 * len(self._values)))
        values[: len(self._values)] = self._values
        self._values = values

    def _forget_sums(self) -> None:
        self._sums.clear()
        self._log.clear()

    def by_row(self, nodes: Nodes) -> Vector:
        """`(size,)` amounts on the rows of a view."""
        amounts: Vector = nodes.gather(self._all(nodes.snapshot.size))
        return amounts

    def _all(self, size: int) -> Vector:
        if size > len(self._values):
            self._grow(size)
        return self._values[:size]

    def by_domain(self, snapshot: Snapshot, key: str, included: Mask | None = None) -> DomainSums:
        """Sums per value of the label, without the rows that `included` `(rows,)` leaves out.

        The same mask must be the same object, or its sums are made anew.
        """
        label = snapshot.label(key)
        codes: Codes = snapshot.trimmed[label.column]
        sums = self._sums.get((key, id(included)))
        if sums is None or not sums.is_current(label, snapshot.node_epoch):
            if len(self._sums) >= MAX_SUMS:
                self._forget_sums()
            sums = DomainSums(label, snapshot.node_epoch, included, len(self._log))
            sums.add_up(codes, self._all(snapshot.size))
            self._sums[key, id(included)] = sums
        elif sums.position != len(self._log):
            sums.catch_up(codes, self._log)
        return sums
