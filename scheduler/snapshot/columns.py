"""Columns: one numpy array per fact about nodes, a row per node, grown and trimmed together.

Owner: the Snapshot. Nobody keeps a column over an await: growth replaces the arrays.
Rows of removed nodes stay until they are reused; `alive` tells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scheduler.snapshot.interning import Interner

Mask = NDArray[np.bool_]
Vector = NDArray[np.float64]
Codes = NDArray[np.intp]

#: 100·value stays exact under float64 division below this (engine notes: cap < 2^53/101)
EXACT_LIMIT = 2**53 // 101
#: from here on float64 does not hold every whole number
WHOLE_LIMIT = 2**53

#: resources every pod or node has something to do with, in their row order
FIRST_RESOURCES = ("pods", "cpu", "memory", "ephemeral-storage")


class Columns:
    """Named arrays `(…, capacity)`; `trimmed[name]` is the part in use."""

    __slots__ = ("_arrays", "_fill", "capacity", "size", "trimmed")

    def __init__(self, capacity: int = 64) -> None:
        self.capacity = capacity
        #: rows in use: the highest row ever handed out, plus one
        self.size = 0
        self._arrays: dict[str, NDArray[Any]] = {}
        self._fill: dict[str, Any] = {}
        self.trimmed: dict[str, NDArray[Any]] = {}

    def add(self, name: str, dtype: DTypeLike, leading: tuple[int, ...] = (), fill: Any = 0) -> None:
        """A new column `(*leading, capacity)`, filled."""
        self._fill[name] = fill
        self._arrays[name] = np.full((*leading, self.capacity), fill, dtype)
        self.trimmed[name] = self._arrays[name][..., : self.size]

    def widen(self, name: str, count: int) -> None:
        """More leading entries for a two-dimensional column: a new resource appeared."""
        old = self._arrays[name]
        wide = np.full((count, self.capacity), self._fill[name], old.dtype)
        wide[: old.shape[0]] = old
        self._arrays[name] = wide
        self.trimmed[name] = wide[..., : self.size]

    def drop(self, name: str) -> None:
        """Forget a column."""
        del self._arrays[name], self._fill[name], self.trimmed[name]

    def next_row(self) -> int:
        """A row that was never used; all columns grow together."""
        if self.size == self.capacity:
            self._grow()
        row = self.size
        self.size += 1
        for name, array in self._arrays.items():
            self.trimmed[name] = array[..., : self.size]
        return row

    def _grow(self) -> None:
        self.capacity *= 2
        for name, old in self._arrays.items():
            new = np.full((*old.shape[:-1], self.capacity), self._fill[name], old.dtype)
            new[..., : old.shape[-1]] = old
            self._arrays[name] = new


class LabelValues:
    """The distinct values of one label key; code 0 means the label is absent."""

    __slots__ = ("column", "key", "values")

    ABSENT = 0

    def __init__(self, key: str) -> None:
        self.key = key
        self.column = f"label:{key}"
        self.values: Interner[str | None] = Interner(None)

    def code(self, value: str | None) -> int:
        """The code of a value, None for an absent label."""
        return 0 if value is None else self.values.code(value)
