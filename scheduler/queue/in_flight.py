"""In-flight pods and the events that happened while they were being scheduled.

A pod that was popped is in no pool, so an event cannot wake it. Events are therefore kept while pods are in
flight; a pod that fails replays those since its pop through its hints, and nothing is missed (facts 2.8).

Owner: the scheduling queue. Bounded: at the bound the oldest events go, and pods that would have replayed them
count as woken by anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from scheduler.framework.cluster_event import WILDCARD_EVENT, ClusterEvent

MAX_EVENTS = 20_000


class InFlightEvent(msgspec.Struct, frozen=True, gc=False):
    """An event and the objects its hints look at."""

    event: ClusterEvent
    old: Any = None
    new: Any = None


ANYTHING = InFlightEvent(WILDCARD_EVENT)


class InFlight:
    """uid -> number of the first event that the pod has not seen, in the order of these numbers."""

    __slots__ = ("_base", "_events", "_since", "dropped")

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self._events: deque[InFlightEvent] = deque()
        self._base = 0
        #: events that went at the bound, so far
        self.dropped = 0

    def start(self, uid: str) -> None:
        """The pod was popped."""
        self._since.pop(uid, None)  # a number that is replaced would keep its old place in the order
        self._since[uid] = self._base + len(self._events)

    def record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Something happened; kept only while somebody is in flight."""
        if not self._since:
            return
        self._events.append(InFlightEvent(event, old, new))
        if len(self._events) > MAX_EVENTS:
            self._events.popleft()
            self._base += 1
            self.dropped += 1

    def done(self, uid: str) -> None:
        """The pod needs no replay any more; events nobody needs are dropped."""
        if self._since.pop(uid, None) is None:
            return
        if not self._since:
            self._base += len(self._events)
            self._events.clear()
            return
        needed = next(iter(self._since.values()))
        while self._base < needed and self._events:
            self._events.popleft()
            self._base += 1

    def events_for(self, uid: str) -> Iterator[InFlightEvent]:
        """What happened since the pod was popped."""
        since = self._since.get(uid)
        if since is None:
            return
        if since < self._base:
            yield ANYTHING
        skip = max(0, since - self._base)
        for i, event in enumerate(self._events):
            if i >= skip:
                yield event

    def __contains__(self, uid: str) -> bool:
        return uid in self._since

    def __len__(self) -> int:
        return len(self._since)

    @property
    def event_count(self) -> int:
        """Events kept."""
        return len(self._events)
