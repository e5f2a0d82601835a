"""A witness of what becomes of pods: follows the API server's own history of them, through restarts of the server.

Used by tests that kill things. It knows nothing of podium: what it saw is what the server stored.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from kube.api.quantity import milli_value
from tests.conformance.api import Api, Json, UnexpectedAnswerError

OUTAGES = (aiohttp.ClientError, TimeoutError, UnexpectedAnswerError)


class Witness:
    """Every node that any pod of a collection was ever given, in order; owner: `watching`."""

    def __init__(self, api: Api, pods: str) -> None:
        self._api = api
        self._pods = pods
        self._version = ""
        #: uid -> the nodes it was given, one after the other
        self.given: dict[str, list[str]] = {}
        self.outages = 0

    async def begin(self) -> None:
        """From here on nothing escapes it."""
        self._version = (await self._api.get(self._pods))["metadata"]["resourceVersion"]

    async def run(self) -> None:
        """Follow the history; a connection that ends goes on where it stopped."""
        while True:
            try:
                async for event in self._api.watch(self._pods, self._version):
                    self._see(event)
            except OUTAGES:
                self.outages += 1
            await asyncio.sleep(0.2)

    def _see(self, event: Json) -> None:
        if event["type"] == "ERROR":
            code = event["object"].get("code")
            assert code != 410, "the server has forgotten the history: nothing can be said about it"
            raise UnexpectedAnswerError(f"watching {self._pods}: {event['object'].get('message')}")
        meta = event["object"]["metadata"]
        self._version = meta["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return
        nodes = self.given.setdefault(meta["uid"], [])
        node = event["object"]["spec"].get("nodeName", "")
        if node != (nodes[-1] if nodes else ""):
            nodes.append(node)

    def bound(self) -> int:
        """Pods that were given a node."""
        return sum(bool(nodes) for nodes in self.given.values())

    async def has_seen(self, count: int, timeout: float = 180) -> None:
        """Return once so many pods have a node."""
        try:
            async with asyncio.timeout(timeout):
                while self.bound() < count:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{self.bound()} of {count} pods were bound within {timeout:.0f} s") from None


@asynccontextmanager
async def watching(api: Api, pods: str) -> AsyncIterator[Witness]:
    """A witness at work."""
    witness = Witness(api, pods)
    await witness.begin()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(witness.run())
        yield witness
        running.cancel()


async def assert_each_is_bound_once(api: Api, pods: str, witness: Witness, names: Iterable[str]) -> None:
    """None of the pods is lost, each was given one node once, and no node was given more than it has."""
    items = (await api.get(pods))["items"]
    assert sorted(each["metadata"]["name"] for each in items) == sorted(names)
    wrong = {
        each["metadata"]["name"]: witness.given.get(each["metadata"]["uid"])
        for each in items
        if witness.given.get(each["metadata"]["uid"]) != [each["spec"].get("nodeName")]
    }
    assert wrong == {}, "pods that were not bound exactly once"
    assert overfull((await api.get("/api/v1/nodes"))["items"], items) == {}


def overfull(nodes: Iterable[Json], pods: Iterable[Json]) -> dict[str, Any]:
    """Nodes that were given more CPU or more pods than they have: node -> what was given."""
    cpu, count = Counter[str](), Counter[str]()
    for each in pods:
        node = each["spec"].get("nodeName", "")
        count[node] += 1
        for container in each["spec"]["containers"]:
            cpu[node] += milli_value(container["resources"]["requests"]["cpu"])
    return {
        name: (cpu[name], count[name])
        for name, room in ((each["metadata"]["name"], each["status"].get("allocatable", {})) for each in nodes)
        if cpu[name] > milli_value(room.get("cpu", "0")) or count[name] > int(room.get("pods", "0"))
    }
