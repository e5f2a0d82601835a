"""A watch over HTTP: one JSON object a line, until the time is over, the client leaves or something goes wrong.

Reads a `Watcher` and writes to one response. What a watch may ask for is read by `WatchRequest`.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import msgspec.json
from aiohttp import web

from simulator.apiserver import errors
from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.faults import ConnectionCutError, Effect
from simulator.apiserver.forms import Form
from simulator.apiserver.listing import parse_bool, parse_int, parse_version
from simulator.apiserver.store import Store
from simulator.apiserver.watch_cache import View, Watcher, watch_line

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(slots=True)
class WatchSettings:
    """How a server's watches behave."""

    bookmark_period: float = 60.0
    """Seconds between bookmarks on a quiet or busy watch alike."""
    min_timeout: float = 1800.0
    """A watch without timeoutSeconds ends after this time or up to twice of it."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """The query of a watch."""

    form: Form
    version: int | None
    bookmarks: bool
    initial_events: bool
    skip_initial: bool
    timeout: int

    @classmethod
    def parse(cls, form: Form, query: Mapping[str, str]) -> "WatchRequest":
        """Read the query parameters; raises a 400 or 422 for what makes no sense."""
        send_initial = query.get("sendInitialEvents")
        match = query.get("resourceVersionMatch", "")
        if send_initial is not None and match != "NotOlderThan":
            why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise _invalid_options(errors.forbidden_field("resourceVersionMatch", why))
        if send_initial is None and match:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise _invalid_options(errors.forbidden_field("resourceVersionMatch", why))
        version = parse_version(query.get("resourceVersion", ""))
        return cls(
            form,
            version,
            parse_bool(query, "allowWatchBookmarks"),
            parse_bool(query, "sendInitialEvents"),
            send_initial is not None and not parse_bool(query, "sendInitialEvents"),
            parse_int(query, "timeoutSeconds"),
        )


def _invalid_options(cause: errors.Cause) -> ApiError:
    return errors.invalid("meta.k8s.io", "ListOptions", "", [cause])


async def serve_watch(
    request: web.BaseRequest,
    store: Store,
    view: View,
    watch: WatchRequest,
    settings: WatchSettings,
    effects: list[Effect],
) -> web.StreamResponse:
    """Answer a watch, to its end."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    try:
        watcher = _open(store, view, watch)
    except ApiError as error:
        # As in the real server: what is wrong with the version alone is said inside the stream.
        await response.prepare(request)
        await response.write(watch_line("ERROR", msgspec.json.encode(error.status())))
        return response
    watcher.on_lost = lambda: request.transport.abort() if request.transport else None
    try:
        await response.prepare(request)
        batches = _batches(store, watcher, watch, settings)
        for effect in effects:
            batches = effect.disturb(batches)
        async for lines in batches:
            await response.write(b"".join(lines))
    except ConnectionCutError as cut:
        await response.write(cut.tail)
        await asyncio.sleep(0)  # lets the half line go out before the connection is cut
        raise
    finally:
        watcher.detach()
    return response


def _open(store: Store, view: View, watch: WatchRequest) -> Watcher:
    collection = store.collection(watch.form.resource.collection)
    if watch.version is not None:
        store.check_reached(watch.version)
    if watch.skip_initial and not watch.version:
        return collection.cache.watch(None, [], watch.form, view)
    if watch.initial_events or not watch.version:
        return collection.cache.watch(None, list(collection.seen(view)), watch.form, view)
    return collection.cache.watch(watch.version, [], watch.form, view)


async def _batches(
    store: Store, watcher: Watcher, watch: WatchRequest, settings: WatchSettings
) -> AsyncIterator[list[bytes]]:
    """Give the lines of a watch in batches: events as they come, bookmarks in between, one more at the end."""
    clock = asyncio.get_running_loop().time
    timeout = watch.timeout or settings.min_timeout * random.uniform(1.0, 2.0)  # spreads the reconnects
    end = clock() + timeout
    next_bookmark = clock() + settings.bookmark_period
    announce_end = watch.initial_events and watch.bookmarks
    while not watcher.closed:
        if lines := watcher.take():
            yield lines
            continue
        if announce_end:
            announce_end = False
            yield [_bookmark(watch.form, store.version, initial_end=True)]
        now = clock()
        if now >= end:
            break
        if watch.bookmarks and now >= next_bookmark and not watcher.behind:
            next_bookmark = now + settings.bookmark_period
            yield [_bookmark(watch.form, store.version)]
        # Never a rest too small for the clock, which would be waited for again and again.
        await watcher.wait(max(min(end, next_bookmark if watch.bookmarks else end) - now, 0.001))
    # A watch that is closed with news left must be resumed before them, not after them.
    if watch.bookmarks and not watcher.lost and not watcher.behind:
        yield [_bookmark(watch.form, store.version)]


def _bookmark(form: Form, version: int, initial_end: bool = False) -> bytes:
    resource = form.resource
    metadata: Object = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    body: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    if resource.kind == "Pod":
        # The real server sends an otherwise empty Pod, whose containers are null.
        body |= {"spec": {"containers": None}, "status": {}}
    return watch_line("BOOKMARK", form.encode_bookmark(body))
