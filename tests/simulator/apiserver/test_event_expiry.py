"""Events go an hour after they were last written, by the server's clock; nothing else does."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from simulator.apiserver import ApiServer
from tests.fixtures_apiserver import pod
from tests.simulator.virtual import START, virtual_clock

pytestmark = pytest.mark.looptime
MINUTE = 60.0


def event(name: str, **more: Any) -> dict[str, Any]:
    """An event about some pod."""
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about, **more}


def names(server: ApiServer) -> list[str]:
    """What is left."""
    return [one["metadata"]["name"] for one in server.list("events")]


async def test_an_event_goes_after_an_hour_and_one_that_comes_again_stays_longer() -> None:
    server = ApiServer(clock=virtual_clock())
    server.create(pod("p"))
    server.create(event("before-the-start"))
    server.create(event("once"))
    server.create(event("again"))
    await server.start()
    await asyncio.sleep(59 * MINUTE)
    server.patch("events", "again", {"count": 2})
    assert len(names(server)) == 3
    await asyncio.sleep(2 * MINUTE)
    assert names(server) == ["again"]
    await asyncio.sleep(59 * MINUTE)
    assert names(server) == []
    assert [one["metadata"]["name"] for one in server.list("pods")] == ["p"]
    await server.stop()


async def test_a_storm_of_events_does_not_grow_for_ever() -> None:
    server = ApiServer(clock=virtual_clock())
    most = 0
    for i in range(300):
        server.create(event(f"e-{i}"))
        await asyncio.sleep(MINUTE)
        most = max(most, len(names(server)))
    assert most <= 60
    await server.stop()


async def test_events_of_a_saved_state_go_by_the_time_they_tell(tmp_path: Any) -> None:
    first = ApiServer(clock=virtual_clock())
    for name, age in (("old", 50), ("young", 10)):
        first.restore(event(name, lastTimestamp=(START - timedelta(minutes=age)).strftime("%Y-%m-%dT%H:%M:%SZ"),
                            metadata={"name": name, "creationTimestamp": "2020-01-01T00:00:00Z"}))  # fmt: skip
    first.save(tmp_path / "state")
    second = ApiServer(clock=virtual_clock())
    second.load(tmp_path / "state")
    await second.start()
    assert names(second) == ["old", "young"]
    await asyncio.sleep(11 * MINUTE)
    assert names(second) == ["young"]
    await asyncio.sleep(40 * MINUTE)
    assert names(second) == []
    await second.stop()


async def test_watchers_are_told_of_an_event_that_goes() -> None:
    server = ApiServer(clock=virtual_clock())
    seen: list[str] = []
    server.store.listen("events", lambda one: seen.append(one.type))
    server.create(event("e"))
    await asyncio.sleep(61 * MINUTE)
    assert seen == ["ADDED", "DELETED"]
    await server.stop()
