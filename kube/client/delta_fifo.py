"""What happened to each object since somebody last looked: client-go's DeltaFIFO.

The Reflector puts in (`add`, `update`, `delete`, `replace`), the SharedInformer takes out (`pop`), both on one event
loop. Keys come out in the order in which they first went in; all deltas of a key come out together. Only `pop` waits;
nothing here talks to the API server.

Bound: one entry per key, and within an entry runs of updates and of deletes collapse to one, so that the queue grows
with the number of objects and not with the number of events.
"""

import asyncio
import enum
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from kube.api.meta import ApiObject
from kube.client.backoff import TimeSlice

log = logging.getLogger(__name__)

T = TypeVar("T", bound=ApiObject)
T_co = TypeVar("T_co", bound=ApiObject, covariant=True)

MAX_TRIES = 5


class DeltaType(enum.Enum):
    """What kind of news a delta is."""

    ADDED = "Added"
    UPDATED = "Updated"
    DELETED = "Deleted"
    REPLACED = "Replaced"  # it was in a new list; whether it is new or changed, only the store knows
    SYNC = "Sync"  # nothing happened: a periodic reminder


class DeletedFinalStateUnknown(NamedTuple):
    """The object is gone, but its delete event was missed: `object` is the last state that was seen, if any."""

    key: str
    object: ApiObject | None


class Delta(msgspec.Struct, frozen=True, gc=False):
    """One change of one object."""

    type: DeltaType
    object: ApiObject | DeletedFinalStateUnknown


class KnownObjects(Protocol[T_co]):
    """What the queue asks of the store that its consumer fills."""

    def keys(self) -> Iterable[str]: ...
    def get(self, key: str) -> T_co | None: ...


Process = Callable[[str, list[Delta]], None]


class DeltaFIFO(Generic[T]):
    """A queue of keys, each with the list of what happened to it."""

    def __init__(self, known_objects: KnownObjects[T]) -> None:
        self._known = known_objects
        # In the queue's order. A dict would look at all that have left whenever it is asked for the first one.
        self._items: OrderedDict[str, list[Delta]] = OrderedDict()
        self._tries: dict[str, int] = {}
        self._initial: set[str] | None = None  # keys of the first list that were not yet processed
        self._news = asyncio.Event()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def has_synced(self) -> bool:
        """Whether the first list came and each object of it was processed."""
        return self._initial is not None and not self._initial

    def add(self, obj: T) -> None:
        """The server says the object was added."""
        self._mark_started()
        self._queue(obj.key, Delta(DeltaType.ADDED, obj))

    def update(self, obj: T) -> None:
        """The server says the object changed."""
        self._mark_started()
        self._queue(obj.key, Delta(DeltaType.UPDATED, obj))

    def delete(self, obj: T) -> None:
        """The server says the object is gone; `obj` is its final state."""
        self._mark_started()
        if self._is_known(obj.key):
            self._queue(obj.key, Delta(DeltaType.DELETED, obj))

    def delete_key(self, key: str) -> None:
        """The object is gone, and its final state could not be read."""
        self._mark_started()
        self._queue_deletion(key)

    async def replace(self, objects: Iterable[T], keep: Iterable[str] = ()) -> None:
        """The server's whole list: what is known but not in it is gone, unless it is among the keys to `keep`.

        A long list goes in slice by slice, and the consumer may take out meanwhile; nobody else may put in.
        """
        work = TimeSlice()
        present = set(keep)
        for obj in objects:
            present.add(obj.key)
            self._queue(obj.key, Delta(DeltaType.REPLACED, obj))
            if work.spent:
                await work.give_way()
        for key in [*self._known.keys(), *self._items]:
            if key not in present:
                self._queue_deletion(key)
            if work.spent:
                await work.give_way()
        if self._initial is None:
            self._initial = set(self._items)
        self._news.set()

    def resync(self) -> None:
        """Remind the consumer of everything it knows and has no news about."""
        for key in [*self._known.keys()]:
            obj = self._known.get(key)
            if key not in self._items and obj is not None:
                self._queue(key, Delta(DeltaType.SYNC, obj))

    def pop_now(self, process: Process) -> str | None:
        """Process the first key, if there is one; a key whose processing raises comes back, a bounded number of times.

        What came back stands before anything newer about the key, at the end of the queue.
        """
        if not self._items:
            return None
        key, deltas = self._items.popitem(last=False)
        try:
            process(key, deltas)
        except Exception:
            self._put_back(key, deltas)
        else:
            self._tries.pop(key, None)
            if self._initial:
                self._initial.discard(key)
        return key

    async def pop(self, process: Process) -> str:
        """As `pop_now`, waiting for a key to come."""
        while (key := self.pop_now(process)) is None:
            await self.wait()
        return key

    async def wait(self) -> None:
        """Return when something came in since the last call, an empty list included."""
        await self._news.wait()
        self._news.clear()

    def _mark_started(self) -> None:
        # Without a list (a store filled by hand, or by tests) there is nothing to wait for.
        if self._initial is None and not self._items:
            self._initial = set()

    def _queue(self, key: str, delta: Delta) -> None:
        deltas = self._items.get(key)
        if deltas is None:
            self._items[key] = [delta]
        elif deltas[-1].type is DeltaType.DELETED and delta.type is DeltaType.DELETED:
            deltas[-1] = _better_deletion(deltas[-1], delta)
        elif deltas[-1].type is DeltaType.UPDATED and delta.type is DeltaType.UPDATED:
            deltas[-1] = delta
        else:
            deltas.append(delta)
        self._news.set()

    def _queue_deletion(self, key: str) -> None:
        if self._is_known(key):
            self._queue(key, Delta(DeltaType.DELETED, DeletedFinalStateUnknown(key, self._last_state(key))))

    def _is_known(self, key: str) -> bool:
        return key in self._items or self._known.get(key) is not None

    def _last_state(self, key: str) -> ApiObject | None:
        for delta in reversed(self._items.get(key, [])):
            if isinstance(delta.object, ApiObject):
                return delta.object
        return self._known.get(key)

    def _put_back(self, key: str, deltas: list[Delta]) -> None:
        tries = self._tries.get(key, 0) + 1
        if tries >= MAX_TRIES:
            log.exception("Dropped the news about %s after %d failures to process it", key, tries)
            self.dropped += 1
            self._tries.pop(key, None)
            if self._initial:
                self._initial.discard(key)
            return
        log.warning("Cannot process the news about %s, it comes back", key, exc_info=True)
        self._tries[key] = tries
        self._items[key] = deltas + self._items.pop(key, [])
        self._news.set()


def _better_deletion(first: Delta, second: Delta) -> Delta:
    """Of two deletes in a row, the one that knows the object's final state."""
    return first if isinstance(second.object, DeletedFinalStateUnknown) else second
