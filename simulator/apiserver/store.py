"""Where the objects are: one `Store` a server, one `Collection` a resource, one version counter for all of it.

It knows nothing of rules: what it is handed, it stamps with the next resourceVersion, keeps, and publishes. The last
events of a collection also serve to look back: a list at an earlier version is the present with these events undone.
Objects are shared with everybody who reads; nobody changes them in place.
Owner: `ApiServer`. Only `verbs.py` and `subresources.py` write. Never awaits.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import NamedTuple

from simulator.apiserver.errors import Object, expired, too_new, too_old
from simulator.apiserver.watch_cache import Event, EventType, Key, Revision, View, WatchCache

WINDOW = 8192  # events of each collection that are kept to watch from
LAST = "\U0010ffff"  # sorts behind every name


class Page(NamedTuple):
    """A part of a list: its objects, and where to go on (None at the end)."""

    revisions: list[Revision]
    next_key: Key | None
    remaining: int


class Collection:
    """The objects of one resource by key, kept in the order lists have, and their recent past."""

    def __init__(self, window: int) -> None:
        self.cache = WatchCache(window)
        self._items: dict[Key, Revision] = {}
        self._order: list[Key] = []

    def __len__(self) -> int:
        """Count the objects."""
        return len(self._items)

    def get(self, key: Key) -> Revision | None:
        """Find one object."""
        return self._items.get(key)

    def put(self, revision: Revision) -> None:
        """Take in a new state of an object, new or known."""
        before = self._items.get(revision.key)
        if before is None:
            insort(self._order, revision.key)
        self._items[revision.key] = revision
        self.cache.publish(Event("ADDED" if before is None else "MODIFIED", revision, before))

    def place(self, revision: Revision) -> None:
        """Take in an object that was there before anything happened."""
        if revision.key not in self._items:
            insort(self._order, revision.key)
        self._items[revision.key] = revision

    def drop(self, revision: Revision) -> None:
        """Let an object go; `revision` is its last state, at the version of its end."""
        before = self._items.pop(revision.key)
        del self._order[bisect_left(self._order, revision.key)]
        event_type: EventType = "DELETED"
        self.cache.publish(Event(event_type, revision, before))

    def seen(self, view: View) -> Iterator[Revision]:
        """Go through what a view holds at present, in list order."""
        first, last = _bounds(self._order, view.namespace)
        return (self._items[key] for key in self._order[first:last] if view.holds(self._items[key]))

    def page(self, view: View, limit: int, after: Key | None, version: int | None) -> Page:
        """Give up to `limit` objects (0: all) behind a key, at a version that is still known or (None) at present."""
        order, items = (self._order, self._items) if version is None else self._at(version)
        first, last = _bounds(order, view.namespace)
        if after is not None:
            first = max(first, bisect_right(order, after))
        found: list[Revision] = []
        for position in range(first, last):
            revision = items[order[position]]
            if not view.holds(revision):
                continue
            if limit and len(found) == limit:
                return Page(found, found[-1].key, last - position)
            found.append(revision)
        return Page(found, None, 0)

    def _at(self, version: int) -> tuple[list[Key], dict[Key, Revision]]:
        events = list(self.cache.since(version))
        if not events:
            return self._order, self._items
        items = dict(self._items)
        for event in events:
            if event.before is None:
                items.pop(event.revision.key, None)
            else:
                items[event.revision.key] = event.before
        return sorted(items), items


def _bounds(order: list[Key], namespace: str) -> tuple[int, int]:
    if not namespace:
        return 0, len(order)
    return bisect_left(order, (namespace, "")), bisect_right(order, (namespace, LAST))


class Store:
    """All collections and the version that they share."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._collections: dict[str, Collection] = {}
        self.version = 1
        self._begun = 0

    def collection(self, name: str) -> Collection:
        """Give a collection by name, made when first asked for."""
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(self._window)
            found.cache.forget(self._begun)
        return found

    def collections(self) -> Iterator[tuple[str, Collection]]:
        """Go through all collections that were ever asked for."""
        return iter(list(self._collections.items()))

    def put(self, collection: Collection, key: Key, obj: Object) -> Revision:
        """Keep a new state of an object under the next version."""
        revision = self._stamp(key, obj)
        collection.put(revision)
        return revision

    def drop(self, collection: Collection, key: Key, obj: Object) -> Revision:
        """Remove an object whose last state is `obj`, under the next version."""
        revision = self._stamp(key, obj)
        collection.drop(revision)
        return revision

    def begin(self, version: int) -> None:
        """Start over at a version, with nothing in it; only before anybody watches."""
        self.version = self._begun = version
        self._collections = {name: Collection(self._window) for name in self._collections}
        for collection in self._collections.values():
            collection.cache.forget(version)

    def place(self, collection: Collection, key: Key, obj: Object, version: int) -> None:
        """Put an object back at the version it had, which nobody is told of."""
        collection.place(Revision(key, obj, version))

    def listen(self, name: str, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Follow a collection in process, see `WatchCache.listen`."""
        return self.collection(name).cache.listen(listener)

    def compact(self) -> None:
        """Forget the past of all collections: watches from before now get a 410, running lists lose their place."""
        for collection in self._collections.values():
            collection.cache.forget(self.version)

    def force_relists(self) -> None:
        """Forget the past and break all watches, so that nobody can go on where he was."""
        self.compact()
        for collection in self._collections.values():
            collection.cache.lose_all()

    def close(self) -> None:
        """End all watches."""
        for collection in self._collections.values():
            collection.cache.close()

    def check_reached(self, version: int) -> None:
        """Refuse a version from the future."""
        if version > self.version:
            raise too_new(version, self.version)

    def check_kept(self, collection: Collection, version: int) -> None:
        """Refuse an exact version that is no longer kept."""
        if version < collection.cache.oldest:
            raise expired(too_old(version, collection.cache.oldest).message)

    def _stamp(self, key: Key, obj: Object) -> Revision:
        self.version += 1
        meta = {**obj["metadata"], "resourceVersion": str(self.version)}
        return Revision(key, {**obj, "metadata": meta}, self.version)
