"""Keeps a store the way the API server is: list once, then watch for ever.

    run:  list ──► watch ──► watch ──► …        each from where the last one ended
            ▲         └─ 410 Gone ─┐            as HTTP status or inside the stream, or a version that is not known yet,
            └──────────────────────┘            or any other word of the server, again and again

Owner: a SharedInformer (one reflector, one store). It never ends by itself and never raises for what a server or a
network can do; each failure costs a delay that grows, so a server that closes at once is asked about once a second at
first and twice a minute later. What it reads goes to the store in order.

A bookmark moves the position and nothing else (initial-events-end included: lists are paged here, not streamed). An
object that cannot be decoded is counted, logged once and skipped: the position moves on, and the store keeps what it
last knew of it. Time is the loop's.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

import msgspec

from kube.api import codec
from kube.api.meta import ApiObject
from kube.client import errors
from kube.client.backoff import Backoff, TimeSlice
from kube.client.indexer import object_key
from kube.client.rest import EVERYTHING, PAGE_SIZE, Client, Selection

log = logging.getLogger(__name__)

T = TypeVar("T", bound=ApiObject)
T_contra = TypeVar("T_contra", bound=ApiObject, contravariant=True)

# A stream that lived this long ended in the ordinary way, and is renewed without a delay worth the name. So is one that
# brought many objects: an API server closes the watches of readers that fall behind in a burst, again and again.
LONG_LIVED = 10.0
MANY_OBJECTS = 10
RENEWAL_JITTER = 0.25
MAX_REMEMBERED_BAD_OBJECTS = 1000
# A server that refuses so often in a row to watch from a version, without a word of it, may do so for ever.
MAX_REFUSALS = 3


class Store(Protocol[T_contra]):
    """What a reflector fills."""

    async def replace(self, objects: Iterable[T_contra], keep: Iterable[str] = ()) -> None: ...
    def add(self, obj: T_contra) -> None: ...
    def update(self, obj: T_contra) -> None: ...
    def delete(self, obj: T_contra) -> None: ...
    def delete_key(self, key: str) -> None: ...


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None


class _AnyObject(msgspec.Struct, gc=False):
    """As much of an object as a bookmark has, and as an undecodable object is needed for."""

    metadata: _Meta | None = None


class Reflector(Generic[T]):
    """Lists and watches one resource into a store."""

    def __init__(
        self,
        client: Client,
        type_: type[T],
        store: Store[T],
        *,
        selection: Selection = EVERYTHING,
        transform: Callable[[T], T] | None = None,
        watch_seconds: int | None = None,
    ) -> None:
        self._client = client
        self._type = type_
        self._store = store
        self._selection = selection
        self._transform = transform
        self._watch_seconds = watch_seconds
        self._name = client.resource(type_).group_resource
        self._backoff = Backoff()
        self._bad_objects: set[str] = set()
        #: objects of the present watch
        self._brought = 0
        #: how often in a row the server has said no
        self._refusals = 0
        #: those who wait for a list that begins from now on, and what stands in its way
        self._wanting: list[asyncio.Event] = []
        self._interruptible: asyncio.Timeout | None = None
        self.resource_version = ""
        self.lists = 0
        self.watches = 0
        self.undecodable = 0

    async def run(self) -> None:
        """List and watch until cancelled."""
        listed = False
        while True:
            started = asyncio.get_running_loop().time()
            self._brought = 0
            try:
                if not listed or self._wanting:
                    await self._list()
                    listed = True
                if self._wanting or not await self._unless_wanted(self._watch()):
                    continue
                log.debug("%s: the watch ended", self._name)
            except errors.Gone as error:
                log.info("%s: listing again: %s", self._name, error)
                listed = False
                self._brought = 0  # lists are dear: they keep their growing pauses
            except (errors.ApiError, codec.DecodeError) as error:
                log.warning("%s: %s", self._name, error)
                listed = listed and not self._is_refused_for_good(error)
            await self._unless_wanted(self._pause(asyncio.get_running_loop().time() - started))

    def _is_refused_for_good(self, error: Exception) -> bool:
        """Whether only a list gets past this; a network that fails says nothing about the version."""
        if not isinstance(error, errors.ApiError) or isinstance(error, errors.Unreachable | errors.TooManyRequests):
            return False
        self._refusals = 1 if self._brought else self._refusals + 1
        if self._refusals < MAX_REFUSALS and not _version_is_unusable(error):
            return False
        self._refusals = 0
        return True

    async def relist(self) -> None:
        """List anew, past all caches, whatever the watch is doing; returns when the store has that list."""
        wanted = asyncio.Event()
        self._wanting.append(wanted)
        if self._interruptible is not None:
            self._interruptible.reschedule(asyncio.get_running_loop().time())
        await wanted.wait()

    async def _unless_wanted(self, work: Coroutine[None, None, None]) -> bool:
        """Watch or pause until somebody begins to want a list; whether the work came to its end."""
        try:
            async with asyncio.timeout(None) as self._interruptible:
                await work
        except TimeoutError:
            return False
        finally:
            self._interruptible = None
        return True

    async def _pause(self, lived: float) -> None:
        if self._brought or lived >= LONG_LIVED:
            self._backoff.reset()
        if self._brought >= MANY_OBJECTS or lived >= LONG_LIVED:
            await asyncio.sleep(random.random() * RENEWAL_JITTER)
        else:
            await self._backoff.sleep()

    async def _list(self) -> None:
        """Not older than what was seen already, where the server still can; else whatever it has."""
        unreadable: set[str] = set()

        def convert(raw: msgspec.Raw) -> T | None:
            obj, key = self._read(raw)
            if obj is None:
                unreadable.add(key)
            return obj

        self.lists += 1
        wanting = (*self._wanting,)
        version = "" if wanting else self.resource_version
        # With a limit an API server takes the version as "exactly that one", not as "no older": a restarted one
        # then gives the state from which it cannot watch, again and again. Without, it answers from its cache.
        limit = 0 if version else PAGE_SIZE
        try:
            found = await self._client.list(
                self._type, self._selection, limit=limit, resource_version=version, convert=convert, retries=0
            )
        except errors.ApiError as error:
            if self.resource_version and _version_is_unusable(error):
                self.resource_version = ""
            raise
        if not found.resource_version:
            raise codec.DecodeError("the list has no metadata.resourceVersion, so nothing can be watched")
        await self._store.replace(found.items, keep=unreadable)
        self.resource_version = found.resource_version
        self._wanting = [wanted for wanted in self._wanting if wanted not in wanting]
        for wanted in wanting:
            wanted.set()

    async def _watch(self) -> None:
        self.watches += 1
        work = TimeSlice()
        stream = self._client.watch(self._type, self.resource_version, self._selection, seconds=self._watch_seconds)
        async with aclosing(stream) as events:
            async for event in events:
                self._apply(event)
                # A stream with news in its buffer never waits by itself.
                if work.spent:
                    await work.give_way()

    def _apply(self, event: codec.WatchEvent) -> None:
        if event.type == "BOOKMARK":
            self._advance(_any_object(event.object).resource_version)
            return
        self._brought += 1
        obj, key = self._read(event.object)
        if event.type == "DELETED":
            if obj is not None:
                self._store.delete(obj)
            else:
                self._store.delete_key(key)
        elif event.type == "ADDED" and obj is not None:
            self._store.add(obj)
        elif event.type == "MODIFIED" and obj is not None:
            self._store.update(obj)
        elif obj is not None:
            log.warning("%s: unknown watch event type %r for %s", self._name, event.type, obj.key)
        self._advance(obj.metadata.resource_version if obj is not None else _any_object(event.object).resource_version)

    def _advance(self, resource_version: str | None) -> None:
        if resource_version:
            self.resource_version = resource_version

    def _read(self, raw: msgspec.Raw) -> tuple[T | None, str]:
        """The object; or None where it cannot be read, and its key."""
        try:
            obj = codec.decode(raw, self._type)
            if self._transform is not None:
                obj = self._transform(obj)
            return obj, ""
        except codec.DecodeError as error:
            meta = _any_object(raw)
            key = object_key(meta.namespace or "", meta.name or "")
            self._report(key, error)
            return None, key

    def _report(self, key: str, error: codec.DecodeError) -> None:
        self.undecodable += 1
        if key in self._bad_objects:
            return
        if len(self._bad_objects) < MAX_REMEMBERED_BAD_OBJECTS:
            self._bad_objects.add(key)
        log.warning("%s: %s cannot be read and is skipped: %s", self._name, key, error)


def _version_is_unusable(error: errors.ApiError) -> bool:
    """The server has forgotten the version (410), or does not know it yet, as after a restore from a backup (504)."""
    if isinstance(error, errors.Gone):
        return True
    causes = (error.details.causes if error.details is not None else None) or ()
    return any(cause.reason == "ResourceVersionTooLarge" for cause in causes) or "Too large resource version" in str(
        error
    )


def _any_object(raw: msgspec.Raw) -> _Meta:
    try:
        return msgspec.json.decode(raw, type=_AnyObject).metadata or _Meta()
    except msgspec.DecodeError:
        return _Meta()
