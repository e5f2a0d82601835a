"""Topology: amounts per row, and their sums per domain.

A domain is the nodes that carry the same value of a topology key. `RowAmounts` holds how much of something is on
each row (pods that a selector means, weights of affinity terms) and adds it up per domain when it is asked. A sum
is kept and brought up to date with the rows that changed since; it is made anew when a node object changed.

Owner: the index that counts (PodIndex). Plugins read. Arrays handed out are shared: nobody writes to them.
Domain sums read the snapshot's label columns, so they may be asked only after a refresh.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from scheduler.snapshot.columns import Codes, LabelValues, Mask, Vector
from scheduler.snapshot.snapshot import Nodes, Snapshot

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: changes after which sums are made anew instead of patched: about what one bincount over 5,000 rows costs
MAX_LOG = 64
#: sums kept by one RowAmounts (topology keys, and masks of nodes that count)
MAX_SUMS = 16


class Recent(Generic[K, V]):
    """A map that remembers the keys that were asked for last and forgets the others."""

    __slots__ = ("_entries", "_limit")

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, or None; now the most recent."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> V | None:
        """Remember; returns the value that had to go for it."""
        self._entries[key] = value
        return self._entries.popitem(last=False)[1] if len(self._entries) > self._limit() else None

    def pop(self, key: K) -> None:
        """Forget a key, known or not."""
        self._entries.pop(key, None)

    def __iter__(self) -> Iterator[V]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(slots=True)
class _Sums:
    """Amounts by label code, and what they are good for."""

    values: Vector
    label: LabelValues
    node_epoch: int
    included: Mask | None
    #: entries of the log that are in
    position: int


class RowAmounts:
    """An amount per row. Owner: the index that adds to it."""

    __slots__ = ("_log", "_sums", "_values")

    def __init__(self, rows: int) -> None:
        self._values: Vector = np.zeros(max(rows, 64))
        self._log: list[tuple[int, float]] = []
        self._sums: dict[tuple[str, int], _Sums] = {}

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
        where = np.fromiter(rows.keys(), np.intp, len(rows))
        highest = int(where.max())
        if highest >= len(self._values):
            self._grow(highest + 1)
        self._values[where] += factor * np.fromiter(rows.values(), np.float64, len(rows))
        self._forget_sums()

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

    def by_domain(self, snapshot: Snapshot, key: str, included: Mask | None = None) -> Vector:
        """`(values of the label,)` sums by label code. Entry 0, nodes without the label, is 0: they form no domain.

        `included` `(rows,)` leaves the other rows out; the same mask must be the same object to be recognised.
        """
        label = snapshot.label(key)
        sums = self._sums.get((key, id(included)))
        if (
            sums is None
            or sums.label is not label
            or sums.node_epoch != snapshot.node_epoch
            or len(sums.values) != len(label.values)
        ):
            sums = self._add_up(snapshot, label, included)
        elif sums.position < len(self._log):
            self._patch(sums, snapshot.trimmed[label.column])
        return sums.values

    def _add_up(self, snapshot: Snapshot, label: LabelValues, included: Mask | None) -> _Sums:
        if len(self._sums) >= MAX_SUMS:
            self._forget_sums()
        codes: Codes = snapshot.trimmed[label.column]
        amounts = self._all(snapshot.size)
        weights = amounts if included is None else amounts * included
        values: Vector = np.bincount(codes, weights, minlength=len(label.values)).astype(np.float64, copy=False)
        values[0] = 0
        sums = _Sums(values, label, snapshot.node_epoch, included, len(self._log))
        self._sums[label.key, id(included)] = sums
        return sums

    def _patch(self, sums: _Sums, codes: Codes) -> None:
        values, included = sums.values, sums.included
        for row, amount in self._log[sums.position :]:
            if included is None or included[row]:
                values[codes[row]] += amount
        values[0] = 0
        sums.position = len(self._log)
