"""The REST client: typed requests to one API server over aiohttp.

Owned by the program's wiring; used by informers, the event recorder, leader election and the binding cycle. It never
caches, never decides whether an error matters, and raises only what `errors.py` draws, or DecodeError.

What it does by itself: wait for the rate limiter; refresh the credentials once after a 401; repeat after a 429, and for
reads after a 5xx, a bounded number of times. A watch is one connection: resuming is the Reflector's business.

Callers say which type they mean, `await client.get(Pod, "web-0", "default")`; the path comes from `kube.api.resources`,
at the version that `discovery.py` found on this server.
"""

import asyncio
import copy
import enum
import logging
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import aiohttp
import msgspec

from kube.api import codec
from kube.api.meta import ApiObject
from kube.api.resources import Resource, by_type
from kube.client import errors
from kube.client.auth import Credentials
from kube.client.backoff import TimeSlice
from kube.client.connections import Request
from kube.client.list_reader import ListReader
from kube.client.rate_limit import TokenBucket
from kube.client.transport import OnAnswer, Read, Transport

log = logging.getLogger(__name__)

T = TypeVar("T", bound=ApiObject)
U = TypeVar("U")

PAGE_SIZE = 500
# client-go's reflector asks for 5 to 10 minutes; just below both ends proxies cut connections.
WATCH_SECONDS = (290, 590)
WATCH_GRACE = 15.0
MAX_RETRIES = 5
MAX_RETRY_AFTER = 60.0


class PatchType(enum.StrEnum):
    """Content types of PATCH."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Selection:
    """Which objects of a resource are meant; empty fields mean all."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def params(self) -> dict[str, str]:
        """The query parameters."""
        params = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: value for name, value in params.items() if value}


EVERYTHING = Selection()


class ObjectList(NamedTuple, Generic[U]):
    """The items of a list, and the resourceVersion from which a watch goes on."""

    items: tuple[U, ...]
    resource_version: str


class Client:
    """Typed requests to one API server, at most `qps` a second. Use as an async context manager."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        qps: float = 50.0,
        burst: int = 100,
        timeout: float = 30.0,
        connections: int = 100,
        user_agent: str = "",
        on_answer: OnAnswer | None = None,
    ) -> None:
        self.credentials = credentials
        self.versions: dict[type[ApiObject], Resource] = {}
        self._limiter = TokenBucket(qps, burst)
        self._transport = Transport(credentials, timeout, connections, user_agent, on_answer)

    def with_rate(self, qps: float, burst: int) -> "Client":
        """A client on the same connections with a rate limit of its own (events must not slow down bindings)."""
        twin = copy.copy(self)
        twin._limiter = TokenBucket(qps, burst)
        return twin

    def apart(self, connections: int) -> "Client":
        """A client with connections of its own and no rate limit, to be opened by itself: for what may not wait."""
        twin = self.with_rate(-1, 0)
        twin._transport = self._transport.apart(connections)
        return twin

    async def __aenter__(self) -> Self:
        self._transport.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()

    def resource(self, type_: type[ApiObject]) -> Resource:
        """Where this server keeps objects of the type."""
        return self.versions.get(type_) or by_type(type_)

    # Reading

    async def get(self, type_: type[T], name: str, namespace: str = "", *, retries: int = MAX_RETRIES) -> T:
        """One object."""
        body = await self.request("GET", self.resource(type_).path(namespace, name), retries=retries)
        return codec.decode(body, type_)

    async def get_raw(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The body of any path."""
        return await self.request("GET", path, params=params)

    async def list(
        self,
        type_: type[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int = PAGE_SIZE,
        resource_version: str = "",
        convert: Callable[[msgspec.Raw], T | None] | None = None,
        retries: int = MAX_RETRIES,
    ) -> ObjectList[T]:
        """All objects, page by page; `convert` may skip items by answering None.

        Where a continue token expires on the way, all is asked again without pages, as client-go's pager does it.
        """
        path = self.resource(type_).path(selection.namespace)
        decode = convert or (lambda raw: codec.decode(raw, type_))
        items: deque[T] = deque()
        token = ""

        def take(raw: msgspec.Raw) -> None:
            item = decode(raw)
            if item is not None:
                items.append(item)

        while True:
            params = _list_params(selection, limit, token, resource_version)
            try:
                body = await self.request("GET", path, params=params, retries=retries, read=ListReader(take).read)
            except errors.Gone:
                if not token:
                    raise
                items.clear()
                token, limit = "", 0
                continue
            page = codec.decode(body, codec.PartialList)
            await _take_all(page.items or (), take)
            token = page.metadata.continue_token
            if not token:
                return ObjectList((*items,), page.metadata.resource_version)

    async def watch(
        self,
        type_: type[ApiObject],
        resource_version: str,
        selection: Selection = EVERYTHING,
        *,
        seconds: int | None = None,
    ) -> AsyncGenerator[codec.WatchEvent, None]:
        """The events after the resourceVersion on one connection, bookmarks included; an ERROR event is raised.

        Ends when the server ends it; raises Unreachable when it is cut, says nothing for longer than it promised to
        last, or says what is no event, and Gone for a line beyond all bounds, which only a new list gets past.
        """
        if resource_version in ("", "0", "None"):
            raise ValueError(f"a watch needs the resourceVersion of a list, got {resource_version!r}")
        seconds = seconds or random.randint(*WATCH_SECONDS)
        params = {
            **selection.params(),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        }
        await self._limiter.wait()
        path = self.resource(type_).path(selection.namespace)
        async with self._transport.stream(Request("GET", path, params), seconds + WATCH_GRACE) as response:
            while line := await _read_line(response):
                event = _watch_event(line)
                if event is not None:
                    yield event

    # Writing

    async def create(self, obj: T, *, retries: int = MAX_RETRIES) -> T:
        """POST the object; what the server made of it."""
        path = self.resource(type(obj)).path(obj.metadata.namespace)
        return codec.decode(await self.request("POST", path, body=codec.encode(obj), retries=retries), type(obj))

    async def update(self, obj: T, *, subresource: str = "", retries: int = MAX_RETRIES) -> T:
        """PUT the object, which must be of a type that holds all its fields; what the server made of it."""
        path = self.resource(type(obj)).path(obj.metadata.namespace, obj.metadata.name, subresource)
        return codec.decode(await self.request("PUT", path, body=codec.encode(obj), retries=retries), type(obj))

    async def patch(  # noqa: PLR0913 - what a PATCH needs
        self,
        type_: type[T],
        name: str,
        body: Any,
        namespace: str = "",
        *,
        kind: PatchType = PatchType.STRATEGIC,
        subresource: str = "",
        params: Mapping[str, str] | None = None,
        retries: int = MAX_RETRIES,
    ) -> T:
        """PATCH the object with anything that becomes JSON; what the server made of it."""
        path = self.resource(type_).path(namespace, name, subresource)
        answer = await self.request(
            "PATCH", path, params=params, body=codec.encode(body), content_type=kind.value, retries=retries
        )
        return codec.decode(answer, type_)

    async def delete(
        self,
        type_: type[ApiObject],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        """DELETE the object; with a uid only that very one (Conflict, where another has its name)."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        await self.request("DELETE", self.resource(type_).path(namespace, name), body=codec.encode(options))

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind the pod to the node. The answer's body is a Status and not looked at: the code tells all."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        await self.request("POST", path, body=codec.encode(binding))

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        retries: int = MAX_RETRIES,
        read: Read | None = None,
    ) -> bytes:
        """Any request; the body of a 2xx answer, or what `read` leaves of it."""
        call = Request(method, path, params, body, content_type)
        tries = 0
        while True:
            if not self._limiter.try_accept():
                await self._limiter.wait()
            try:
                return await self._transport.send(call, read)
            except (errors.TooManyRequests, errors.ServerError) as error:
                if tries >= retries or (method != "GET" and not isinstance(error, errors.TooManyRequests)):
                    raise
                delay = error.retry_after or 0.5 * 2.0**tries * (1.0 + random.random())
                log.debug("%s; trying again in %.1f s", error, delay)
                await asyncio.sleep(min(delay, MAX_RETRY_AFTER))
                tries += 1


def _list_params(selection: Selection, limit: int, token: str, resource_version: str) -> dict[str, str]:
    params = selection.params()
    if limit:
        params["limit"] = str(limit)
    if token:
        params["continue"] = token  # which names its own resourceVersion
    elif resource_version:
        params["resourceVersion"] = resource_version
    return params


async def _take_all(raws: Iterable[msgspec.Raw], take: Callable[[msgspec.Raw], None]) -> None:
    work = TimeSlice()
    for raw in raws:
        take(raw)
        if work.spent:
            await work.give_way()


async def _read_line(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.content.readline()
    except (ValueError, aiohttp.http_exceptions.LineTooLong) as error:
        raise errors.Gone("an event is too long to be read", reason="LineTooLong") from error


def _watch_event(line: bytes) -> codec.WatchEvent | None:
    if not line.strip():
        return None
    try:
        event = codec.decode(line, codec.WatchEvent)
    except (codec.DecodeError, UnicodeDecodeError) as error:
        cut = not line.endswith(b"\n")
        text = "the stream was cut within an event" if cut else f"not a watch event: {errors.one_line(line)}"
        raise errors.Unreachable(text, maybe_applied=False, reason="BrokenStream") from error
    if event.type == "ERROR":
        raise errors.from_watch_event(event.object)
    return event
