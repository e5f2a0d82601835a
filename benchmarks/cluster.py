"""A cluster over HTTP, as the benchmark works on it: creates and deletes many objects at once, and sees binds.

Owner: a comparison, one for each API server. Uses podium's client for the wire, and none of its caches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import perf_counter
from typing import Any

import msgspec

from benchmarks.objects import Made
from kube.api import codec
from kube.api.core import Pod
from kube.api.resources import PODS
from kube.client.errors import AlreadyExists, ApiError, Conflict, Forbidden, Gone, NotFound
from kube.client.rest import Client, PatchType, Selection

log = logging.getLogger(__name__)

#: requests in flight
AT_ONCE = 16
ADMISSION_TRIES = 30
_NOW = codec.encode({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
_LET_GO = codec.encode({"metadata": {"finalizers": None}})


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Seen(msgspec.Struct, gc=False):
    metadata: _Meta


class _Size(msgspec.Struct, gc=False):
    allocatable: dict[str, str] = msgspec.field(default_factory=dict)


class _SizedNode(msgspec.Struct, gc=False):
    status: _Size = msgspec.field(default_factory=_Size)


class Cluster:
    """Objects of one benchmark run on one server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        #: name of a pod -> when it was seen to be bound (perf_counter)
        self.bound: dict[str, float] = {}
        #: name of a pod -> when its creation was answered
        self.created: dict[str, float] = {}
        #: called at each bind that is seen
        self.on_bound: Callable[[str], None] = lambda name: None

    # --- objects ------------------------------------------------------------------------------------------

    async def create(self, objects: Iterable[Made], *, rate: float = 0.0) -> list[Made]:
        """Create them, some at a time; those that are there already stay."""
        done: list[Made] = []
        source = iter(objects)
        started = perf_counter()

        async def work() -> None:
            for made in source:
                if rate:
                    # Each object has its moment, so that a slow answer delays nobody else.
                    await asyncio.sleep(max(0.0, started + len(done) / rate - perf_counter()))
                done.append(made)
                await self._create(made)

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())
        return done

    async def _create(self, made: Made) -> None:
        with suppress(AlreadyExists):
            answer = await self._post(made)
            if made.resource is PODS:
                self.created[made.name] = perf_counter()
            elif made.resource.kind == "Node" and not _is_sized(answer):
                status = codec.encode({"status": msgspec.json.decode(made.body)["status"]})
                await self._client.request(
                    "PATCH", f"{made.path}/status", body=status, content_type=PatchType.STRATEGIC.value
                )

    async def _post(self, made: Made) -> bytes:
        for _ in range(ADMISSION_TRIES):
            try:
                return await self._client.request("POST", made.collection, body=made.body)
            except Forbidden:
                # Admission has not yet heard of a priority class or namespace that was created just now.
                await asyncio.sleep(0.1)
        return await self._client.request("POST", made.collection, body=made.body)

    async def delete(self, objects: Iterable[Made], *, rate: float = 0.0) -> None:
        """Delete them without grace, some at a time, finalizers or not."""
        source = iter(objects)
        started = perf_counter()
        count = 0

        async def work() -> None:
            nonlocal count
            for made in source:
                if rate:
                    await asyncio.sleep(max(0.0, started + count / rate - perf_counter()))
                count += 1
                await self.delete_one(made)

        async with asyncio.TaskGroup() as group:
            for _ in range(1 if rate else AT_ONCE):
                group.create_task(work())

    async def delete_one(self, made: Made) -> None:
        """Delete an object that may be gone."""
        with suppress(NotFound, Conflict):
            await self._client.request("DELETE", made.path, body=_NOW)

    async def let_go(self, objects: Iterable[Made]) -> None:
        """Take the finalizers away from those that have some."""
        for made in objects:
            if b'"finalizers"' in made.body:
                with suppress(NotFound):
                    await self._client.request("PATCH", made.path, body=_LET_GO, content_type=PatchType.MERGE.value)

    async def count(self, path: str) -> int:
        """How many objects a collection has."""
        page = msgspec.json.decode(await self._client.get_raw(path, {"limit": "1"}))
        metadata: dict[str, Any] = page["metadata"]
        return len(page["items"] or ()) + int(metadata.get("remainingItemCount") or 0)

    async def clear(self, path: str) -> None:
        """Delete a whole collection."""
        with suppress(ApiError):
            await self._client.request("DELETE", path, body=_NOW)

    # --- watching -----------------------------------------------------------------------------------------

    async def watch_binds(self, watching: asyncio.Event) -> None:
        """See pods being bound, until cancelled."""
        selection = Selection(field_selector="spec.nodeName!=")
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list_bound(selection)
                watching.set()
                async for event in self._client.watch(Pod, version, selection):
                    seen = msgspec.json.decode(event.object, type=_Seen).metadata
                    version = seen.resource_version
                    if event.type == "ADDED":
                        self._see(seen.name)
            except ApiError as error:
                log.warning("the benchmark's own watch was interrupted: %s", error)
                version = "" if isinstance(error, Gone) else version

    async def _list_bound(self, selection: Selection) -> str:
        found = await self._client.list(Pod, selection)
        for pod in found.items:
            self._see(pod.metadata.name)
        return found.resource_version

    def _see(self, name: str) -> None:
        if name not in self.bound:
            self.bound[name] = perf_counter()
            self.on_bound(name)


def _is_sized(answer: bytes) -> bool:
    return bool(msgspec.json.decode(answer, type=_SizedNode).status.allocatable)
