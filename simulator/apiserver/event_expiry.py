"""Events are kept for an hour after they were last written (the real server's --event-ttl), by the server's clock.

They are let go in the order they were written, in batches, so that the news of a storm costs no timer each. The real
server leaves this to leases of etcd; here one timer waits for the oldest. Owner: `ApiServer`.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from simulator.apiserver.deletion import DeleteOptions
from simulator.apiserver.errors import Object
from simulator.apiserver.resources import Resource
from simulator.apiserver.verbs import Verbs
from simulator.apiserver.watch_cache import Event, Key, View

TTL = 3600.0
#: a batch is worth waiting for
PAUSE = 10.0
_TIMES = ("eventTime", "firstTimestamp", "lastTimestamp")


class EventExpiry:
    """Lets the events of one server go."""

    def __init__(self, verbs: Verbs, events: Resource, ttl: float = TTL) -> None:
        self._verbs = verbs
        self._events = events
        self._ttl = ttl
        self._written: dict[Key, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._unfollow: Callable[[], None] = verbs.store.listen(events.collection, self._on_event)

    def begin_again(self) -> None:
        """The store was filled with other objects: their own times count."""
        self.stop()
        self._unfollow()
        found = self._verbs.collection(self._events).seen(View())
        ages = sorted((_last_time(revision.obj), revision.key) for revision in found)
        self._written = {key: time for time, key in ages}
        self._unfollow = self._verbs.store.listen(self._events.collection, self._on_event)

    def start(self) -> None:
        """Begin to let go; needs a running event loop."""
        self._arm()

    def stop(self) -> None:
        """Let go no more, until somebody writes an event again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_event(self, event: Event) -> None:
        key = event.revision.key
        self._written.pop(key, None)
        if event.type != "DELETED":
            self._written[key] = self._now()
            self._arm()

    def _now(self) -> float:
        return self._verbs.clock().timestamp()

    def _arm(self) -> None:
        if self._timer is not None or not self._written:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # nobody is served yet; `start` comes later
        oldest = next(iter(self._written.values()))
        self._timer = loop.call_later(max(oldest + self._ttl - self._now(), PAUSE), self._work)

    def _work(self) -> None:
        self._timer = None
        limit = self._now() - self._ttl
        while self._written:
            key, time = next(iter(self._written.items()))
            if time > limit:
                break
            self._verbs.delete(self._events, *key, DeleteOptions())
            self._written.pop(key, None)  # one that a finalizer holds is tried only once
        self._arm()


def _last_time(event: Object) -> float:
    """When an event was last seen, as far as it says so itself."""
    series = event.get("series") or {}
    said = [series.get("lastObservedTime"), event["metadata"].get("creationTimestamp"), *map(event.get, _TIMES)]
    times = [datetime.fromisoformat(text) for text in said if isinstance(text, str)]
    return max((time.replace(tzinfo=time.tzinfo or UTC).timestamp() for time in times), default=0.0)
