"""Events for people: what happened to an object, written in the background to events.k8s.io/v1.

Owned by the program's wiring, which runs it in its TaskGroup. `event` only puts into memory: it never waits and never
raises, whatever the API server does. Failures cost events, never scheduling.

Bounds: the queue of what is to be sent holds `capacity` entries; what does not fit is dropped and counted in `dropped`.
The same event again (same object, reason, action, type and note) becomes a series: one POST, one PATCH at the first
repetition, then at most one PATCH per SERIES_INTERVAL. Some requests are in flight at once, never two of one series;
their rate is that of the client given.
"""

import asyncio
import enum
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from kube.api import codec
from kube.api.events import Event, EventSeries
from kube.api.meta import ApiObject, ObjectMeta, ObjectReference, format_micro_time, format_time
from kube.api.resources import EVENTS
from kube.client import errors
from kube.client.discovery import Discovery
from kube.client.rest import MAX_RETRY_AFTER, Client, PatchType

log = logging.getLogger(__name__)

NOTE_LIMIT = 1024
SERIES_INTERVAL = 360.0
SERIES_LIMIT = 4096
SWEEP_PERIOD = 60.0
MAX_TRIES = 3
#: requests in flight: one after the other they would fall behind the binds they tell of
SENDERS = 64
NAME_LIMIT = 253
_TRANSIENT = (errors.TooManyRequests, errors.ServerError, errors.Unreachable)


class EventType(enum.StrEnum):
    """Whether people have to do something about it."""

    NORMAL = "Normal"
    WARNING = "Warning"


class _Series:
    """One event and how often it happened. Owned by the recorder."""

    __slots__ = ("count", "event", "key", "queued", "seen_at", "sending", "sent_at", "sent_count")

    def __init__(self, key: tuple[Any, ...], event: Event, now: float) -> None:
        self.key = key
        self.event = event
        self.count = 1
        self.sent_count = 0  # 0: the event does not exist on the server yet
        self.sent_at = 0.0
        self.seen_at = now
        self.queued = False
        self.sending = False


class EventRecorder:
    """Takes events at any rate and writes them at the client's."""

    def __init__(
        self, client: Client, instance: str, *, capacity: int = 10_000, now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._instance = instance
        self._now = now  # only ever written into events, for people to read
        self._clock = _loop_time
        self._use_core_api = False
        self._series: OrderedDict[tuple[Any, ...], _Series] = OrderedDict()
        # Wakes one sender for each entry: an asyncio.Event would wake all that rest, to find it taken.
        self._queue: asyncio.Queue[_Series] = asyncio.Queue(capacity)
        self._names = 0
        self._last_complaint = float("-inf")
        self.sent = 0
        self.dropped = 0
        self.failed = 0

    async def choose_api(self, discovery: Discovery) -> None:
        """Use core/v1 where the server has no events.k8s.io at all."""
        found = await discovery.resolve(EVENTS)
        self._use_core_api = found is None
        if found is not None:
            self._client.versions[Event] = found

    def event(
        self,
        regarding: ApiObject | ObjectReference,
        type_: EventType,
        reason: str,
        action: str,
        note: str,
        *,
        controller: str,
        related: ApiObject | ObjectReference | None = None,
    ) -> None:
        """Something happened; `controller` is who says so, for a scheduler its profile's schedulerName."""
        note = cut_note(note)
        about = reference(regarding)
        other = reference(related) if related is not None else None
        key = (_identity(about), other and _identity(other), reason, action, type_, note, controller)
        now = self._clock()
        series = self._series.get(key)
        if series is not None:
            self._repeat(series, now)
            return
        event = Event(
            metadata=ObjectMeta(name=self._event_name(about.name), namespace=about.namespace or "default"),
            event_time=format_micro_time(self._now()),
            reporting_controller=controller,
            reporting_instance=self._instance,
            action=action,
            reason=reason,
            regarding=about,
            related=other,
            note=note,
            type=type_.value,
        )
        self._begin(_Series(key, event, now))

    async def run(self) -> None:
        """Write until cancelled."""
        self._clock = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(self._send_all(), name="events")
            group.create_task(self._sweep_all(), name="event series")

    async def flush(self) -> None:
        """Return when everything so far was written or given up."""
        await self._queue.join()

    def _begin(self, series: _Series) -> None:
        if not self._enqueue(series):
            return  # forgotten, so that the next time counts as the first
        self._series[series.key] = series
        if len(self._series) > SERIES_LIMIT:
            _, oldest = self._series.popitem(last=False)
            if oldest.sent_count and oldest.count > oldest.sent_count:
                self._enqueue(oldest)

    def _repeat(self, series: _Series, now: float) -> None:
        series.count += 1
        series.seen_at = now
        self._series.move_to_end(series.key)
        if series.sent_count == 1 or (series.sent_count and now - series.sent_at >= SERIES_INTERVAL):
            self._enqueue(series)

    def _enqueue(self, series: _Series) -> bool:
        if series.queued or series.sending:
            return True
        if self._queue.full():
            self.dropped += 1
            return False
        series.queued = True
        self._queue.put_nowait(series)
        return True

    async def _sweep_all(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_PERIOD)
            now = self._clock()
            for key, series in [*self._series.items()]:
                unsent = series.count > series.sent_count
                if unsent and now - series.sent_at >= SERIES_INTERVAL:
                    self._enqueue(series)
                elif not unsent and now - series.seen_at >= SERIES_INTERVAL:
                    del self._series[key]

    async def _send_all(self) -> None:
        while True:
            series = await self._queue.get()
            series.queued, series.sending = False, True
            try:
                await self._send(series)
            finally:
                series.sending = False
                self._queue.task_done()

    async def _send(self, series: _Series) -> None:
        for tries in range(MAX_TRIES):
            try:
                await self._write(series)
            except (errors.ApiError, codec.DecodeError) as error:
                if tries + 1 == MAX_TRIES or not isinstance(error, _TRANSIENT):
                    self._give_up(series, error)
                    return
                delay = error.retry_after or 2.0**tries * (1.0 + random.random())
                await asyncio.sleep(min(delay, MAX_RETRY_AFTER))
            else:
                self.sent += 1
                return

    async def _write(self, series: _Series) -> None:
        count, known = series.count, series.sent_count
        if known:
            try:
                await self._patch(series.event, count)
            except errors.NotFound:
                known = 0  # it has expired on the server
        if not known:
            try:  # noqa: SIM105 - for every event, and `suppress` makes an object
                await self._create(series.event, count)
            except errors.AlreadyExists:
                pass  # an earlier try got through, though its answer did not
        series.sent_count = count
        series.sent_at = self._clock()

    def _create(self, event: Event, count: int) -> Coroutine[Any, Any, bytes]:
        body = self._core_event(event, count) if self._use_core_api else self._event(event, count)
        return self._client.request("POST", self._path(event), body=codec.encode(body), retries=0)

    def _patch(self, event: Event, count: int) -> Coroutine[Any, Any, bytes]:
        if self._use_core_api:
            change: Any = {"count": count, "lastTimestamp": format_time(self._now())}
        else:
            change = {"series": self._series_now(count)}
        path = f"{self._path(event)}/{event.metadata.name}"
        return self._client.request(
            "PATCH", path, body=codec.encode(change), content_type=PatchType.MERGE.value, retries=0
        )

    def _path(self, event: Event) -> str:
        if self._use_core_api:
            return f"/api/v1/namespaces/{event.metadata.namespace}/events"
        return self._client.resource(Event).path(event.metadata.namespace)

    def _event(self, event: Event, count: int) -> Any:
        api_version = self._client.resource(Event).api_version
        if count == 1 and api_version == event.API_VERSION:
            return event
        body = codec.to_builtins(event)
        body["apiVersion"] = api_version
        if count > 1:
            body["series"] = self._series_now(count)
        return body

    def _series_now(self, count: int) -> EventSeries:
        return EventSeries(count=count, last_observed_time=format_micro_time(self._now()))

    def _core_event(self, event: Event, count: int) -> Any:
        """The same in the older shape."""
        body = codec.to_builtins(event)
        body |= {
            "apiVersion": "v1",
            "involvedObject": body.pop("regarding"),
            "message": body.pop("note"),
            "reportingComponent": body.pop("reportingController"),
            "source": {"component": event.reporting_controller},
            "firstTimestamp": format_time(self._now()),
            "lastTimestamp": format_time(self._now()),
            "count": count,
        }
        return body

    def _give_up(self, series: _Series, error: Exception) -> None:
        self.failed += 1
        series.sent_at = self._clock()
        if not series.sent_count:
            self._series.pop(series.key, None)  # so that the next time counts as the first
        # One line a minute: the API server's trouble is not to become the log's.
        if self._clock() - self._last_complaint >= SWEEP_PERIOD:
            self._last_complaint = self._clock()
            log.warning("Cannot write events (%d failed, %d dropped so far): %s", self.failed, self.dropped, error)

    def _event_name(self, about: str) -> str:
        # client-go's form, object and nanoseconds; the counter keeps names apart where the clock is too coarse.
        self._names += 1
        suffix = f".{int(self._now() * 1e9) + self._names:x}"
        return about[: NAME_LIMIT - len(suffix)] + suffix


def reference(obj: ApiObject | ObjectReference) -> ObjectReference:
    """What an event calls the object by."""
    if isinstance(obj, ObjectReference):
        return obj
    meta = obj.metadata
    return ObjectReference(
        api_version=obj.API_VERSION,
        kind=obj.KIND,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def cut_note(note: str) -> str:
    """At most 1024 bytes, the API server's limit, without cutting a character in two."""
    data = note.encode()
    if len(data) <= NOTE_LIMIT:
        return note
    suffix = " ..."
    return data[: NOTE_LIMIT - len(suffix)].decode(errors="ignore") + suffix


def _identity(about: ObjectReference) -> tuple[str, ...]:
    # Not the resourceVersion: a pod whose condition was just patched is still the same pod.
    return (about.kind, about.namespace, about.name, about.uid)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
