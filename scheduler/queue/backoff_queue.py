"""backoffQ: pods that were refused or failed a moment ago and must wait a little (facts 2.8).

Two heaps: refused pods that an event may have helped are taken early when the scheduler is idle; pods that failed by
an error, or after Permit, are not, since the cause may still be there.

Owner: the scheduling queue. Times in seconds of the queue's clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from scheduler.queue.heap import KeyedHeap
from scheduler.queue.queued_pod import QueuedPodInfo


class BackoffQueue:
    """Pods by the end of their backoff, then by QueueSort within the same whole second."""

    __slots__ = ("_eager", "_patient", "_whole_seconds", "initial", "maximum")

    def __init__(
        self, initial: float, maximum: float, sort_key: Callable[[QueuedPodInfo], Any], *, whole_seconds: bool = True
    ) -> None:
        self.initial = initial
        self.maximum = maximum
        #: pods that may be popped early are ordered by QueueSort within a second
        self._whole_seconds = whole_seconds

        def order(item: QueuedPodInfo) -> tuple[float, Any]:
            return (item.backoff_expiration, sort_key(item))

        self._eager: KeyedHeap[QueuedPodInfo] = KeyedHeap(order)
        self._patient: KeyedHeap[QueuedPodInfo] = KeyedHeap(order)

    def duration(self, item: QueuedPodInfo) -> float:
        """min(initial·2^(k-1), max), k = errors in a row if there are any, else refusals; 0 for a first-time pod."""
        count = item.consecutive_errors or item.unschedulable_count
        if count == 0 or self.maximum == 0:
            return 0.0
        return float(min(self.initial * 2.0 ** min(count - 1, 62), self.maximum))

    def start(self, item: QueuedPodInfo) -> None:
        """Set the end of the backoff, from the time the pod came back.

        It ends in some whole second, and lasts until that second is over: never less than the configured time.
        """
        duration = self.duration(item)
        end = item.timestamp + duration
        item.backoff_expiration = (math.floor(end) + 1.0 if self._whole_seconds else end) if duration else 0.0

    def is_backing_off(self, item: QueuedPodInfo, now: float) -> bool:
        """Whether the pod must still wait."""
        return item.backoff_expiration > now

    def push(self, item: QueuedPodInfo) -> None:
        """Add a pod."""
        (self._patient if item.sits_out else self._eager).push(item.uid, item)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take a pod out."""
        return self._eager.remove(uid) or self._patient.remove(uid)

    def get(self, uid: str) -> QueuedPodInfo | None:
        """The pod, if it is here."""
        return self._eager.get(uid) or self._patient.get(uid)

    def pop_early(self) -> QueuedPodInfo | None:
        """The first pod that an event may have helped, though its backoff is not over."""
        return self._eager.pop()

    def pop_expired(self, now: float) -> QueuedPodInfo | None:
        """A pod whose backoff is over."""
        for heap in (self._eager, self._patient):
            first = heap.peek()
            if first is not None and first.backoff_expiration <= now:
                return heap.pop()
        return None

    def __contains__(self, uid: str) -> bool:
        return uid in self._eager or uid in self._patient

    def __len__(self) -> int:
        return len(self._eager) + len(self._patient)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain(self._eager, self._patient)
