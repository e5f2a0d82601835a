"""KeyedHeap: a heap whose items can be found, replaced and removed by key.

heapq with lazy deletion: a removed or replaced entry stays until it surfaces. Owner: whoever made it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class KeyedHeap(Generic[T]):
    """Items by key, smallest order first; equal orders leave in order of arrival."""

    __slots__ = ("_entries", "_heap", "_order", "_sequence")

    def __init__(self, order: Callable[[T], Any]) -> None:
        self._order = order
        self._heap: list[tuple[Any, int, str]] = []
        self._entries: dict[str, tuple[int, T]] = {}
        self._sequence = 0

    def push(self, key: str, item: T) -> None:
        """Add an item, or replace the one with that key; its order is taken now."""
        self._sequence += 1
        self._entries[key] = (self._sequence, item)
        heapq.heappush(self._heap, (self._order(item), self._sequence, key))
        if len(self._heap) > 2 * len(self._entries) + 64:
            self._compact()

    def remove(self, key: str) -> T | None:
        """Take an item out, wherever it is."""
        entry = self._entries.pop(key, None)
        return None if entry is None else entry[1]

    def peek(self) -> T | None:
        """The first item."""
        self._drop_stale()
        return self._entries[self._heap[0][2]][1] if self._heap else None

    def pop(self) -> T | None:
        """Take the first item out."""
        self._drop_stale()
        if not self._heap:
            return None
        key = heapq.heappop(self._heap)[2]
        return self._entries.pop(key)[1]

    def _drop_stale(self) -> None:
        heap, entries = self._heap, self._entries
        while heap:
            entry = entries.get(heap[0][2])
            if entry is not None and entry[0] == heap[0][1]:
                return
            heapq.heappop(heap)

    def _compact(self) -> None:
        live = self._entries
        self._heap = [e for e in self._heap if e[2] in live and live[e[2]][0] == e[1]]
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
