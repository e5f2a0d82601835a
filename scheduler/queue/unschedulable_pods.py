"""UnschedulablePods: the pool of pods that wait for an event, grouped by whose events may wake them.

Ten thousand pods that were refused for want of room are one group: an event that frees none costs one look at it.

Owner: the SchedulingQueue. It never judges an event.
"""

from __future__ import annotations

from collections.abc import Iterator, ValuesView

from scheduler.queue.queued_pod import QueuedPodInfo

#: (schedulerName, the plugins that refused the pod)
Rejection = tuple[str, frozenset[str]]


class UnschedulablePods:
    """uid -> pod, in the order in which they came. What refused a pod may not change while it is in here."""

    def __init__(self) -> None:
        self._items: dict[str, QueuedPodInfo] = {}
        self._rejection: dict[str, Rejection] = {}
        self._groups: dict[Rejection, dict[str, QueuedPodInfo]] = {}

    def add(self, item: QueuedPodInfo) -> None:
        """Put a pod in that is not in."""
        rejection = (item.pod.spec.scheduler_name, frozenset(item.rejectors))
        self._items[item.uid] = item
        self._rejection[item.uid] = rejection
        self._groups.setdefault(rejection, {})[item.uid] = item

    def pop(self, uid: str) -> QueuedPodInfo | None:
        """Take a pod out, if it is in."""
        item = self._items.pop(uid, None)
        if item is not None:
            rejection = self._rejection.pop(uid)
            group = self._groups[rejection]
            del group[uid]
            if not group:
                del self._groups[rejection]
        return item

    def get(self, uid: str) -> QueuedPodInfo | None:
        """The pod, if it is in."""
        return self._items.get(uid)

    def values(self) -> ValuesView[QueuedPodInfo]:
        """All pods."""
        return self._items.values()

    def groups(self) -> list[tuple[Rejection, dict[str, QueuedPodInfo]]]:
        """The pods by what refused them; take none out while reading a group itself."""
        return [*self._groups.items()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __contains__(self, uid: str) -> bool:
        return uid in self._items

    def __len__(self) -> int:
        return len(self._items)
