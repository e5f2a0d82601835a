"""The recent past of one collection, and the watchers that read along in it.

    publish ──► ring of the last N events ◄── cursor of each watcher

A watcher is a cursor: fan-out costs nothing but a wake-up, every event is encoded once, and memory is bound by the ring
whatever the watchers do. A watcher that falls out of the ring is closed; asking for a time before it is a 410.
Owner: the `Collection` that it belongs to, which alone publishes. Never awaits but in `Watcher.wait`.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Literal, Protocol

import msgspec.json

from simulator.apiserver.errors import Object, too_old
from simulator.apiserver.resources import Resource
from simulator.apiserver.selectors import Predicate

EventType = Literal["ADDED", "MODIFIED", "DELETED"]
Key = tuple[str, str]
"""Namespace ("" outside of namespaces) and name."""

LAG_CHECK = 256  # a watcher that lags is looked for once in so many events
BATCH = 500  # lines handed out at once: the loop gives way between batches


class Revision:
    """One state of one object: the dict, its version, and the bytes it is sent as (encoded at first use)."""

    __slots__ = ("_encoded", "key", "obj", "version")

    def __init__(self, key: Key, obj: Object, version: int) -> None:
        self.key = key
        self.obj = obj
        self.version = version
        self._encoded: dict[Resource, bytes] = {}

    def encoded(self, resource: Resource) -> bytes:
        """Give the object as JSON in the form of this resource."""
        body = self._encoded.get(resource)
        if body is None:
            obj = resource.conversion.from_storage(self.obj) if resource.conversion else self.obj
            body = self._encoded[resource] = msgspec.json.encode(obj)
        return body


class Encoder(Protocol):
    """A form in which objects are shown, see `forms.py`."""

    kept: bool
    """Whether what `encode` gives is kept with the revision."""

    def encode(self, revision: Revision) -> bytes:
        """Give one object."""


class Event:
    """One change: the state after it and the state before it (None for a new object)."""

    __slots__ = ("_lines", "before", "revision", "type", "version")

    def __init__(self, event_type: EventType, revision: Revision, before: Revision | None) -> None:
        self.type = event_type
        self.revision = revision
        self.before = before
        self.version = revision.version
        self._lines: dict[tuple[EventType, Encoder], bytes] = {}

    def line(self, event_type: EventType, form: "Encoder") -> bytes:
        """Give the line a watcher gets, the same bytes for all that see this event as the same change."""
        if form.kept and event_type == self.type:
            return watch_line(event_type, form.encode(self.revision))
        line = self._lines.get((event_type, form))
        if line is None:
            line = self._lines[event_type, form] = watch_line(event_type, form.encode(self._shown(event_type)))
        return line

    def _shown(self, event_type: EventType) -> Revision:
        """For an object that left a selector: what the watcher knew of it, at the version at which it left."""
        if event_type == "DELETED" and self.type == "MODIFIED" and self.before is not None:
            obj = self.before.obj
            meta = {**obj["metadata"], "resourceVersion": str(self.version)}
            return Revision(self.revision.key, {**obj, "metadata": meta}, self.version)
        return self.revision

    def seen_through(self, selector: Predicate) -> EventType | None:
        """Tell what this change is to somebody who sees only what the selector matches."""
        now = self.type != "DELETED" and selector(self.revision.obj)
        before = self.before is not None and selector(self.before.obj)
        if now:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None


def watch_line(event_type: str, body: bytes) -> bytes:
    """Frame an encoded object as one line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (event_type.encode(), body)


class WatchCache:
    """The ring of the last events of one collection, and who is waiting for the next."""

    def __init__(self, window: int) -> None:
        self._ring: list[Event | None] = [None] * window
        self._next = 0
        self._oldest = 0
        self._pulse = asyncio.Event()
        self._watchers: set[Watcher] = set()
        self._listeners: list[Callable[[Event], None]] = []

    @property
    def oldest(self) -> int:
        """The version from which on all events are still here."""
        return self._oldest

    @property
    def watchers(self) -> int:
        """How many watchers read along."""
        return len(self._watchers)

    def publish(self, event: Event) -> None:
        """Append an event, forgetting the oldest, and wake whoever waits."""
        slot = self._next % len(self._ring)
        forgotten = self._ring[slot]
        if forgotten is not None:
            self._oldest = forgotten.version
        self._ring[slot] = event
        self._next += 1
        for listener in tuple(self._listeners):
            listener(event)
        if self._next % min(LAG_CHECK, len(self._ring)) == 0:
            self._close_laggards()
        self.wake()

    def wake(self) -> None:
        """Let every waiting watcher look again."""
        self._pulse.set()
        self._pulse.clear()

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call back inside `publish` for each event, until what is given back is called.

        The listener must not write to the store before it returns.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def forget(self, up_to: int) -> None:
        """Drop the past up to a version, as compaction does; watchers that still need it are closed."""
        self._oldest = max(self._oldest, up_to)
        for watcher in self._watchers:
            pending = self._at(watcher.cursor) if watcher.cursor < self._next else None
            if pending is not None and pending.version <= up_to:
                watcher.lose()

    def since(self, version: int) -> Iterator[Event]:
        """Give the events after a version, newest first; raises a 410 if some are gone."""
        if version < self._oldest:
            raise too_old(version, self._oldest)
        for sequence in range(self._next - 1, self._next - 1 - len(self._ring), -1):
            event = self._at(sequence)
            if event is None or event.version <= version:
                return
            yield event

    def watch(self, version: int | None, initial: list[Revision], form: "Encoder", view: "View") -> "Watcher":
        """Open a watcher behind `version`, or (None) at the present with `initial` to be told first."""
        cursor = self._next if version is None else self._next - sum(1 for _ in self.since(version))
        watcher = Watcher(self, cursor, initial, form, view)
        self._watchers.add(watcher)
        return watcher

    def close(self) -> None:
        """End all watches."""
        for watcher in self._watchers:
            watcher.close()

    def lose_all(self) -> None:
        """Break all watches."""
        for watcher in tuple(self._watchers):
            watcher.lose()

    def _at(self, sequence: int) -> Event | None:
        return self._ring[sequence % len(self._ring)] if sequence >= 0 else None

    def _close_laggards(self) -> None:
        for watcher in self._watchers:
            if self._next - watcher.cursor > len(self._ring):
                watcher.lose()


class View:
    """What part of a collection a watcher or a list sees: one namespace or all, through a selector or none."""

    __slots__ = ("namespace", "selector")

    def __init__(self, namespace: str = "", selector: Predicate | None = None) -> None:
        self.namespace = namespace
        self.selector = selector

    def holds(self, revision: Revision) -> bool:
        """Tell whether an object can be seen."""
        if self.namespace and revision.key[0] != self.namespace:
            return False
        return self.selector is None or self.selector(revision.obj)

    def sees(self, event: Event) -> EventType | None:
        """Tell what a change looks like from here; None for not at all."""
        if self.namespace and event.revision.key[0] != self.namespace:
            return None
        return event.type if self.selector is None else event.seen_through(self.selector)


class Watcher:
    """One watch under way. Owner: the coroutine that serves it, which must `detach` it at the end."""

    def __init__(self, cache: WatchCache, cursor: int, initial: list[Revision], form: Encoder, view: View) -> None:
        self.cursor = cursor
        self.closed = False
        self.lost = False
        self.on_lost: Callable[[], None] | None = None
        self._cache = cache
        self._initial = initial
        self._told = 0
        self._form = form
        self._view = view

    @property
    def initial_left(self) -> bool:
        """Whether some of the state at the start is still to be told."""
        return self._told < len(self._initial)

    @property
    def behind(self) -> bool:
        """Whether something is still to be told."""
        return self.initial_left or self.cursor < self._cache._next

    def take(self) -> list[bytes]:
        """Give the next lines, empty when there is nothing new."""
        if self.initial_left:
            return self._take_initial()
        lines: list[bytes] = []
        cache, view, form = self._cache, self._view, self._form
        while len(lines) < BATCH and self.cursor < cache._next and not self.closed:
            if cache._next - self.cursor > len(cache._ring):
                self.lose()
                break
            event = cache._at(self.cursor)
            self.cursor += 1
            if event is not None and (seen := view.sees(event)) is not None:
                lines.append(event.line(seen, form))
        return lines

    def _take_initial(self) -> list[bytes]:
        batch = self._initial[self._told : self._told + BATCH]
        self._told += len(batch)
        if not self.initial_left:
            self._initial, self._told = [], 0
        return [watch_line("ADDED", self._form.encode(revision)) for revision in batch]

    async def wait(self, seconds: float) -> None:
        """Wait for the next event anywhere in the collection, or until the time is over."""
        if self.closed or self.cursor < self._cache._next:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._cache._pulse.wait()
        except TimeoutError:
            return

    def close(self) -> None:
        """End the watch in good order: its server shuts down."""
        self.closed = True
        self._cache.wake()

    def lose(self) -> None:
        """End a watch that can no longer be served; a reader stuck in a write learns of it through `on_lost`."""
        self.lost = True
        self.close()
        if self.on_lost is not None:
            self.on_lost()

    def detach(self) -> None:
        """Leave the cache."""
        self._cache._watchers.discard(self)
