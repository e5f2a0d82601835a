"""Shared informers: one list and watch per resource, one store, any number of handlers.

    Reflector ─► DeltaFIFO ─► dispatch loop ─► Indexer (the store)
                                            └► Listener per handler: add, update, delete

Owner: `InformerFactory`, made by the program's wiring, which also starts the informers in its TaskGroup. Handlers are
plain functions called on the loop, after the store has changed; they must not wait. The dispatch loop gives way to I/O
by time slice. A handler that raises is logged and counted, and gets the same news about that object again, before any
newer news about it, a bounded number of times; neither other handlers nor other objects wait for that.

Two differences to client-go: an object that was deleted and created again under its name while nobody watched is told
as a delete and an add (client-go tells an update), and a new list tells nothing about objects that did not change.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from kube.api.meta import ApiObject
from kube.client.backoff import TimeSlice
from kube.client.delta_fifo import DeletedFinalStateUnknown, Delta, DeltaFIFO, DeltaType
from kube.client.indexer import Indexer, IndexFunc
from kube.client.reflector import Reflector
from kube.client.rest import EVERYTHING, Client, Selection

log = logging.getLogger(__name__)

T = TypeVar("T", bound=ApiObject)

MAX_TRIES = 5
RETRY_DELAY = 0.1


@dataclass(frozen=True)
class Handler(Generic[T]):
    """What to call on news. `delete` also learns whether the final state is unknown, because the event was missed.

    With a `filter` the handler lives in a world of matching objects only: an update that makes an object match is an
    add there, one that ends the match a delete (client-go's FilteringResourceEventHandler).
    """

    add: Callable[[T], None] | None = None
    update: Callable[[T, T], None] | None = None
    delete: Callable[[T, bool], None] | None = None
    filter: Callable[[T], bool] | None = None


class _News(NamedTuple, Generic[T]):
    """`old` alone is a delete, `new` alone an add, both an update; `final` is the state in which the object went."""

    old: T | None
    new: T | None
    final: T | None = None


class Listener(Generic[T]):
    """One handler of an informer, with the news it has still to be told again. Owned by the SharedInformer."""

    def __init__(self, handler: Handler[T], name: str, told: Callable[[], None]) -> None:
        self._handler = handler
        self._name = name
        self._told = told
        self._pending: dict[str, deque[_News[T]]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.failures = 0
        self.dropped = 0

    @property
    def idle(self) -> bool:
        """Whether the handler was told everything."""
        return not self._pending

    def tell(self, key: str, old: T | None, new: T | None, final: T | None = None) -> None:
        """Call the handler, or wait behind what it has to be told again about this object. See `_News`."""
        waiting = self._pending.get(key)
        if waiting is not None:
            _append(waiting, _News(old, new, final))
            return
        try:
            self._dispatch(old, new, final)
        except Exception:
            self._note_failure(key)
            self._pending[key] = deque([_News(old, new, final)])
            self._retry_later(key, 1)

    def stop(self) -> None:
        """Tell nothing more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _retry_later(self, key: str, tries: int) -> None:
        delay = RETRY_DELAY * 2.0 ** (tries - 1)
        self._timers[key] = asyncio.get_running_loop().call_later(delay, self._retry, key, tries)

    def _retry(self, key: str, tries: int) -> None:
        del self._timers[key]
        waiting = self._pending[key]
        while waiting:
            if not self._call(key, waiting[0]):
                tries += 1
                if tries < MAX_TRIES:
                    self._retry_later(key, tries)
                    return
                log.error("%s: news about %s is dropped after %d failures of a handler", self._name, key, tries)
                self.dropped += 1
            waiting.popleft()
            tries = 0
        del self._pending[key]
        self._told()

    def _call(self, key: str, news: _News[T]) -> bool:
        try:
            self._dispatch(*news)
        except Exception:
            self._note_failure(key)
            return False
        return True

    def _note_failure(self, key: str) -> None:
        """Called where the exception is handled."""
        self.failures += 1
        log.exception("%s: a handler failed for %s", self._name, key)

    def _dispatch(self, old: T | None, new: T | None, final: T | None) -> None:
        handler, left_filter = self._handler, False
        if (accepts := handler.filter) is not None:
            # The filter judges the state that the handler knows: a final state that does not match hides no delete.
            left_filter = new is not None
            old = old if old is not None and accepts(old) else None
            new = new if new is not None and accepts(new) else None
        if old is not None and new is not None:
            if handler.update is not None:
                handler.update(old, new)
        elif new is not None:
            if handler.add is not None:
                handler.add(new)
        elif old is not None and handler.delete is not None:
            handler.delete(final or old, final is None and not left_filter)


def _append(waiting: deque[_News[T]], news: _News[T]) -> None:
    """Two updates in a row are one, which bounds the list."""
    last = waiting[-1]
    if last.old is not None and last.new is not None and news.old is not None and news.new is not None:
        waiting[-1] = _News(last.old, news.new)
    else:
        waiting.append(news)


class SharedInformer(Generic[T]):
    """The objects of one resource (and selection), kept up to date, and whoever wants to hear of changes."""

    def __init__(
        self,
        client: Client,
        type_: type[T],
        *,
        selection: Selection = EVERYTHING,
        transform: Callable[[T], T] | None = None,
        resync_period: float = 0.0,
    ) -> None:
        self.name = client.resource(type_).group_resource
        self.transform = transform
        self.indexer: Indexer[T] = Indexer()
        self.fifo: DeltaFIFO[T] = DeltaFIFO(self.indexer)
        self.reflector: Reflector[T] = Reflector(client, type_, self.fifo, selection=selection, transform=transform)
        self.listeners: list[Listener[T]] = []
        self._resync_period = resync_period
        self._synced = asyncio.Event()
        self._drained = asyncio.Event()

    def add_index(self, name: str, func: IndexFunc[T]) -> None:
        """See `Indexer.add_index`."""
        self.indexer.add_index(name, func)

    def add_handler(
        self,
        *,
        add: Callable[[T], None] | None = None,
        update: Callable[[T, T], None] | None = None,
        delete: Callable[[T, bool], None] | None = None,
        filter: Callable[[T], bool] | None = None,
    ) -> Listener[T]:
        """Call these functions on news; what is in the store already is told at once, as adds."""
        listener = Listener(Handler(add, update, delete, filter), self.name, self._announce_sync)
        self.listeners.append(listener)
        for obj in self.indexer:
            listener.tell(obj.key, None, obj)
        return listener

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the store and all handlers have been told of it. Once true, it stays true."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        """Return when `has_synced`."""
        await self._synced.wait()

    async def relist(self) -> None:
        """List anew, past all caches; returns when the handlers have been told of the differences."""
        await self.reflector.relist()
        if len(self.fifo):
            self._drained.clear()
            await self._drained.wait()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.reflector.run(), name=f"reflector {self.name}")
                group.create_task(self._dispatch(), name=f"informer {self.name}")
                if self._resync_period > 0.0:
                    group.create_task(self._resync(), name=f"resync {self.name}")
        finally:
            for listener in self.listeners:
                listener.stop()

    async def _dispatch(self) -> None:
        work = TimeSlice()
        while True:
            popped = self.fifo.pop_now(self._process)
            if popped is None:
                self._announce_sync()
                self._drained.set()
                await self.fifo.wait()
                work.begin()
            elif work.spent:
                await work.give_way()

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._resync_period)
            self.fifo.resync()

    def _announce_sync(self) -> None:
        if not self.has_synced and self.fifo.has_synced and all(listener.idle for listener in self.listeners):
            self._synced.set()

    def _process(self, key: str, deltas: list[Delta]) -> None:
        for delta in deltas:
            if delta.type is DeltaType.DELETED:
                self._process_deletion(key, delta)
            else:
                self._process_state(key, delta)

    def _process_deletion(self, key: str, delta: Delta) -> None:
        old = self.indexer.delete(key)
        if old is None:
            return
        final: Any = delta.object
        known = not isinstance(final, DeletedFinalStateUnknown)
        self._tell(key, old, None, final if known else None)

    def _process_state(self, key: str, delta: Delta) -> None:
        new: Any = delta.object
        old = self.indexer.add(new)
        if old is None:
            self._tell(key, None, new)
        elif old.metadata.uid != new.metadata.uid:
            self._tell(key, old, None)
            self._tell(key, None, new)
        elif delta.type is not DeltaType.REPLACED or old.metadata.resource_version != new.metadata.resource_version:
            self._tell(key, old, new)

    def _tell(self, key: str, old: T | None, new: T | None, final: T | None = None) -> None:
        for listener in self.listeners:
            listener.tell(key, old, new, final)


class InformerFactory:
    """One informer per resource and selection, whoever asks for it. Owned by the program's wiring."""

    def __init__(self, client: Client, *, resync_period: float = 0.0) -> None:
        self._client = client
        self._resync_period = resync_period
        self._informers: dict[tuple[type[ApiObject], Selection], SharedInformer[Any]] = {}
        self._started: set[SharedInformer[Any]] = set()

    @property
    def informers(self) -> tuple[SharedInformer[Any], ...]:
        """All that were asked for."""
        return (*self._informers.values(),)

    def informer(
        self,
        type_: type[T],
        selection: Selection = EVERYTHING,
        transform: Callable[[T], T] | None = None,
    ) -> SharedInformer[T]:
        """The informer of these objects; who asks first says how they are transformed."""
        key = (type_, selection)
        known = self._informers.get(key)
        if known is None:
            known = self._informers[key] = SharedInformer(
                self._client, type_, selection=selection, transform=transform, resync_period=self._resync_period
            )
        elif transform is not None and known.transform is not transform:
            raise ValueError(f"the informer of {known.name} exists already, with another transform")
        return known

    def start(self, group: asyncio.TaskGroup) -> None:
        """Run those that were asked for since the last start; they end with the group."""
        for informer in self.informers:
            if informer not in self._started:
                self._started.add(informer)
                group.create_task(informer.run(), name=f"shared informer {informer.name}")

    async def wait_for_sync(self, timeout: float | None = None) -> None:
        """Return when all have synced; TimeoutError names those that have not."""
        try:
            async with asyncio.timeout(timeout):
                for informer in self.informers:
                    await informer.wait_for_sync()
        except TimeoutError:
            late = ", ".join(informer.name for informer in self.informers if not informer.has_synced)
            raise TimeoutError(f"not synced after {timeout:g} s: {late}") from None
