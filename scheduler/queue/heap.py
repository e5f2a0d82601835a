"""KeyedHeap: a heap whose items can be found, replaced and removed by key.

What is pushed in order, as almost everything is, stands in a row of its own: it comes and goes without a comparison
with all the others. The rest is in a heapq. Both delete lazily: a removed or replaced entry stays until it surfaces.
Owner: whoever made it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

#: order, number of the push, key
_Entry = tuple[Any, int, str]
_GONE = (0, None)


class KeyedHeap(Generic[T]):
    """Items by key, smallest order first; equal orders leave in order of arrival."""

    __slots__ = ("_entries", "_heap", "_order", "_row", "_sequence")

    def __init__(self, order: Callable[[T], Any]) -> None:
        self._order = order
        self._row: deque[_Entry] = deque()
        self._heap: list[_Entry] = []
        self._entries: dict[str, tuple[int, T]] = {}
        self._sequence = 0

    def push(self, key: str, item: T) -> None:
        """Add an item, or replace the one with that key; its order is taken now."""
        self._sequence += 1
        self._entries[key] = (self._sequence, item)
        entry = (self._order(item), self._sequence, key)
        if not self._row or self._row[-1] < entry:
            self._row.append(entry)
        else:
            heapq.heappush(self._heap, entry)
        if len(self._row) + len(self._heap) > 2 * len(self._entries) + 64:
            self._compact()

    def remove(self, key: str) -> T | None:
        """Take an item out, wherever it is."""
        entry = self._entries.pop(key, None)
        return None if entry is None else entry[1]

    def peek(self) -> T | None:
        """The first item."""
        self._drop_stale()
        if not self._row and not self._heap:
            return None
        first = self._row[0] if self._is_row_first() else self._heap[0]
        return self._entries[first[2]][1]

    def pop(self) -> T | None:
        """Take the first item out."""
        self._drop_stale()
        if not self._row and not self._heap:
            return None
        first = self._row.popleft() if self._is_row_first() else heapq.heappop(self._heap)
        return self._entries.pop(first[2])[1]

    def _is_row_first(self) -> bool:
        return not self._heap or (bool(self._row) and self._row[0] < self._heap[0])

    def _drop_stale(self) -> None:
        row, heap, entries = self._row, self._heap, self._entries
        while row and entries.get(row[0][2], _GONE)[0] != row[0][1]:
            row.popleft()
        while heap and entries.get(heap[0][2], _GONE)[0] != heap[0][1]:
            heapq.heappop(heap)

    def _compact(self) -> None:
        live = self._entries
        self._row = deque(e for e in self._row if live.get(e[2], _GONE)[0] == e[1])
        self._heap = [e for e in self._heap if live.get(e[2], _GONE)[0] == e[1]]
        heapq.heapify(self._heap)

    def get(self, key: str) -> T | None:
        """The item of that key."""
        entry = self._entries.get(key)
        return None if entry is None else entry[1]

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[T]:
        return iter([item for _, item in self._entries.values()])
