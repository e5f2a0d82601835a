"""Status patches: sent once, in order, the newest word last. Time is virtual."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kube.api.codec import DecodeError
from kube.api.core import Pod
from kube.client.errors import Conflict, NotFound
from scheduler import status_patches
from scheduler.status_patches import StatusPatches
from tests.builders import make_pod

pytestmark = pytest.mark.looptime

WEB = make_pod("web", uid="u")
BUSY = Conflict("busy", status=409)


class Server:
    """Takes a second per patch; the next ones fail with the given errors."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.sent: list[dict[str, Any]] = []
        self.arrived: list[dict[str, Any]] = []
        self.dropped = 0

    async def send(self, pod: Pod, patch: dict[str, Any]) -> None:
        self.sent.append(patch)
        await asyncio.sleep(1)
        if self.errors:
            raise self.errors.pop(0)
        self.arrived.append(patch)

    def drop(self) -> None:
        self.dropped += 1


@asynccontextmanager
async def running(
    send: Callable[[Pod, dict[str, Any]], Awaitable[None]], drop: Callable[[], None]
) -> AsyncIterator[StatusPatches]:
    patches = StatusPatches(send, drop)
    task = asyncio.create_task(patches.run())
    yield patches
    assert not task.done(), "the workers are alive whatever the server said"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_patches_of_different_pods_are_sent_side_by_side() -> None:
    server = Server()
    async with running(server.send, server.drop) as patches:
        for i in range(status_patches.WORKERS):
            patches.put(f"u{i}", make_pod(f"p{i}"), {"i": i})
        assert not patches.idle
        await asyncio.sleep(1.1)
        assert sorted(patch["i"] for patch in server.arrived) == list(range(status_patches.WORKERS))
        assert patches.idle


async def test_patches_of_one_pod_are_sent_one_after_the_other_and_what_waits_is_merged() -> None:
    server = Server()
    async with running(server.send, server.drop) as patches:
        patches.put("u", WEB, {"conditions": [1]})
        await asyncio.sleep(0.5)
        patches.put("u", WEB, {"conditions": [2], "nominatedNodeName": "n1"})
        patches.put("u", WEB, {"conditions": [3]})
        await asyncio.sleep(0.4)
        assert server.sent == [{"conditions": [1]}]
        await asyncio.sleep(2)
        assert server.arrived == [{"conditions": [1]}, {"conditions": [3], "nominatedNodeName": "n1"}]


@pytest.mark.parametrize(
    ("errors", "tries", "arrived"),
    [
        pytest.param([BUSY], 2, True, id="an error is tried again"),
        pytest.param([DecodeError("not a pod")], 2, True, id="so is an answer that makes no sense"),
        pytest.param([BUSY] * 3, 3, False, id="three times in all: the pod's next attempt says it again"),
        pytest.param([NotFound("gone", status=404)], 1, False, id="a pod that is gone needs no patch"),
    ],
)
async def test_errors(errors: list[Exception], tries: int, arrived: bool) -> None:
    server = Server(*errors)
    async with running(server.send, server.drop) as patches:
        patches.put("u", WEB, {"a": 1})
        await asyncio.sleep(10)
        assert len(server.sent) == tries
        assert server.arrived == ([{"a": 1}] if arrived else [])
        assert patches.idle


async def test_a_patch_that_is_tried_again_takes_the_newer_word_along() -> None:
    server = Server(BUSY)
    async with running(server.send, server.drop) as patches:
        patches.put("u", WEB, {"conditions": [1], "nominatedNodeName": "n1"})
        await asyncio.sleep(0.5)
        patches.put("u", WEB, {"nominatedNodeName": None})
        await asyncio.sleep(5)
        assert server.arrived == [{"conditions": [1], "nominatedNodeName": None}]


async def test_a_dropped_patch_is_not_sent() -> None:
    server = Server()
    async with running(server.send, server.drop) as patches:
        patches.put("u", WEB, {"a": 1})
        patches.drop("u")
        await asyncio.sleep(2)
        assert server.sent == []


async def test_at_the_bound_the_oldest_goes_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_patches, "MAX_WAITING", 2)
    server = Server()
    async with running(server.send, server.drop) as patches:
        for i in range(3):
            patches.put(f"u{i}", make_pod(f"p{i}"), {"i": i})
        await asyncio.sleep(2)
        assert server.arrived == [{"i": 1}, {"i": 2}]
        assert server.dropped == 1


@pytest.mark.parametrize(
    ("written", "shown", "nomination"),
    [
        pytest.param([], "n1", "n1", id="nothing was written: what the informer shows"),
        pytest.param(["n1"], "", "n1", id="written and not shown yet"),
        pytest.param(["n1", None], "n1", "", id="written, shown, and taken back"),
        pytest.param(["n1"], "n1", "n1", id="written and shown"),
    ],
)
async def test_what_the_nomination_will_be(written: list[str | None], shown: str, nomination: str) -> None:
    server = Server()
    async with running(server.send, server.drop) as patches:
        for node in written:
            patches.put("u", WEB, {"nominatedNodeName": node})
        await asyncio.sleep(3)
        assert patches.nomination("u", make_pod("web", nominated_node_name=shown)) == nomination


async def test_once_shown_the_informer_is_believed_again() -> None:
    server = Server()
    async with running(server.send, server.drop) as patches:
        patches.put("u", WEB, {"nominatedNodeName": "n1"})
        await asyncio.sleep(3)
        assert patches.nomination("u", make_pod("web", nominated_node_name="n1")) == "n1"
        assert patches.nomination("u", make_pod("web", nominated_node_name="n2")) == "n2"


async def test_a_nomination_that_could_not_be_written_does_not_count() -> None:
    server = Server(BUSY, BUSY, BUSY)
    async with running(server.send, server.drop) as patches:
        patches.put("u", WEB, {"nominatedNodeName": "n1"})
        await asyncio.sleep(10)
        assert patches.nomination("u", WEB) == ""
