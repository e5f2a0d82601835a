"""What the page's server answers, without a browser: the stream, its bounds, the files, and who may ask."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from podium.http import PortError
from podium.page.hub import QUEUE, Client
from podium.page.image import MAX_PODS, Image, Slices
from podium.page.samples import quantile
from podium.page.server import PageServer, files
from podium.wiring import Service
from simulator.apiserver import ApiServer
from tests.fixtures_apiserver import node
from tests.podium.harness import podium, until
from tests.podium.page.test_page import ours, zoned

pytestmark = pytest.mark.looptime

Event = tuple[str, str, Any]


async def read(answer: aiohttp.ClientResponse) -> Event:
    """The next event of a stream: (id, event, data)."""
    fields: dict[str, str] = {}
    while line := (await answer.content.readline()).decode().rstrip("\n"):
        name, _, value = line.partition(": ")
        fields[name] = value
    return (fields["id"], fields["event"], json.loads(fields["data"])) if "data" in fields else await read(answer)


async def read_until(answer: aiohttp.ClientResponse, key: str) -> Event:
    """The next event that tells something about `key`."""
    while not (event := await read(answer))[2].get(key):
        pass
    return event


@asynccontextmanager
async def served(server: ApiServer) -> AsyncIterator[tuple[Service, PageServer, aiohttp.ClientSession]]:
    """A service, its page, and requests to the page."""
    async with (
        podium(server) as service,
        PageServer(service) as page,
        aiohttp.ClientSession(f"http://127.0.0.1:{page.port}", read_bufsize=2**22) as asks,
    ):
        yield service, page, asks


# --- the stream ----------------------------------------------------------------------------------------------------


async def test_a_browser_is_sent_the_whole_state_and_then_what_changes(api_server: ApiServer) -> None:
    api_server.create(zoned("n1", "zone-a", cpu="2"))
    async with served(api_server) as (_, _, asks), asks.get("/stream") as answer:
        assert answer.content_type == "text/event-stream"
        _, kind, state = await read(answer)
        assert kind == "state"
        assert state["nodes"] == [["n1", "zone-a", "", 0, 0.0, 0.0, 0.0, {}]]
        assert state["status"] == {"profiles": ["podium"], "synced": True, "leader": None, "stopping": False}
        api_server.create(ours("web", "1"))
        _, kind, change = await read_until(answer, "nodes")
        assert kind == "change"
        assert change["nodes"] == [["n1", "zone-a", "", 1, 0.5, 0.0, round(1 / 110, 3), {}]]
        api_server.delete("pods", "web", grace_seconds=0)
        api_server.delete("nodes", "n1")
        assert (await read_until(answer, "goneNodes"))[2]["goneNodes"] == ["n1"]


async def test_a_pending_pod_comes_with_its_reason_and_goes(api_server: ApiServer) -> None:
    api_server.create(zoned("n1", "zone-a", cpu="2"))
    async with served(api_server) as (service, _, asks), asks.get("/stream") as answer:
        await read(answer)
        api_server.create(ours("large", "4"))
        await until(lambda: service.scheduler.queue.lengths()["unschedulable"] == 1, "it was tried")
        seen = (await read_until(answer, "pods"))[2]
        while seen["pods"][0][3] != "unschedulable":
            seen = (await read_until(answer, "pods"))[2]
        uid, *rest = seen["pods"][0]
        assert (rest[1], rest[-1]) == ("large", "1 Insufficient cpu")
        assert seen["reasons"] == [["Insufficient cpu", 1]]
        assert seen["lengths"]["unschedulable"] == 1
        api_server.delete("pods", "large", grace_seconds=0)
        assert (await read_until(answer, "gonePods"))[2]["gonePods"] == [uid]


@pytest.mark.parametrize(
    "how",
    [pytest.param("header", id="a browser says it in a header"), pytest.param("query", id="the page in the address")],
)
async def test_who_comes_back_is_sent_what_he_missed(api_server: ApiServer, how: str) -> None:
    api_server.create(zoned("n1", "zone-a"))
    async with served(api_server) as (_, _, asks):
        async with asks.get("/stream") as answer:
            await read(answer)
            last, _, _ = await read(answer)
        api_server.create(zoned("n2", "zone-a"))
        await asyncio.sleep(3)
        headers = {"Last-Event-ID": last} if how == "header" else {}
        path = "/stream" if how == "header" else f"/stream?after={last}"
        async with asks.get(path, headers=headers) as answer:
            number, kind, change = await read_until(answer, "nodes")
        assert kind == "change"
        assert [row[0] for row in change["nodes"]] == ["n2"]
        assert number.partition("-")[0] == last.partition("-")[0]


@pytest.mark.parametrize("last", ["0-1", "nonsense", "deadbeef-x"])
async def test_a_number_of_another_life_gets_the_whole_state(api_server: ApiServer, last: str) -> None:
    async with served(api_server) as (_, _, asks), asks.get("/stream", headers={"Last-Event-ID": last}) as answer:
        assert (await read(answer))[1] == "state"


async def test_nothing_is_built_while_nobody_looks_and_samples_go_on(api_server: ApiServer) -> None:
    async with served(api_server) as (_, page, asks):
        await asyncio.sleep(100)
        assert page.hub._number == 0
        async with asks.get("/stream") as answer:
            _, _, state = await read(answer)
            assert 95 <= len(state["samples"]) <= 101
        await asyncio.sleep(100)
        assert page.hub._number == 0, "half a minute after the last one left it begins anew"


def test_a_client_that_does_not_keep_up_is_never_owed_much() -> None:
    client = Client()
    client.offer_whole(b"state")
    for i in range(QUEUE * 3):
        client.offer(b"change %d" % i)
        assert client._messages.qsize() <= QUEUE
    assert client.lost
    client.offer_whole(b"state again")
    assert client._messages.get_nowait() == b"state again"
    assert client._messages.empty()


async def test_a_bug_in_an_update_costs_the_update_and_nothing_else(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api_server.create(zoned("n1", "zone-a"))
    async with served(api_server) as (service, _, asks):
        with monkeypatch.context() as broken:
            broken.setattr(Image, "_update_decisions", lambda *_: 1 / 0)
            async with asks.get("/stream") as answer:
                await asyncio.sleep(2)
                assert "the page's update failed" in caplog.text
                broken.undo()
                assert (await read(answer))[1] == "state"
        api_server.create(ours("web"))
        await until(lambda: bool(service.cache.pods), "scheduling goes on")


async def test_the_loop_is_given_back_between_the_parts_of_an_update(api_server: ApiServer) -> None:
    for i in range(1000):
        api_server.create(node(f"n{i}"))
    async with podium(api_server) as service:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await Image(service).update(Slices())
        counting.cancel()
        assert turns >= 3


async def test_of_many_pending_pods_some_are_shown_and_all_are_counted(api_server: ApiServer) -> None:
    for i in range(MAX_PODS + 20):
        api_server.create(ours(f"held-{i}", schedulingGates=[{"name": "example.com/gate"}]))
    async with podium(api_server) as service:
        image = Image(service)
        await image.update(Slices())
        whole = image.whole()
        assert len(whole.pods) == MAX_PODS
        assert whole.lengths is not None
        assert whole.lengths["gated"] == MAX_PODS + 20
        assert whole.reasons == [("waiting for scheduling gates: [example.com/gate]", MAX_PODS + 20)]


async def test_the_reason_outlives_the_decision_log(api_server: ApiServer) -> None:
    api_server.create(node("n1", cpu="1"))
    async with podium(api_server) as service:
        api_server.create(ours("large", "4"))
        queue = service.scheduler.queue
        await until(lambda: any(i.pod.status.conditions for i, _ in queue.pending_pods()), "the condition is seen")
        service.scheduler.decisions._records.clear()
        image = Image(service)
        await image.update(Slices())
        assert [row.reason for row in image.whole().pods] == ["1 Insufficient cpu"]


async def test_too_many_browsers_are_turned_away(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium.page.server.MAX_CLIENTS", 1)
    async with served(api_server) as (_, _, asks), asks.get("/stream"), asks.get("/stream") as second:
        assert (second.status, second.headers["Retry-After"]) == (503, "5")


# --- samples -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("buckets", "part", "expected"),
    [
        pytest.param({0.1: 0.0, 0.2: 0.0, float("inf"): 0.0}, 0.5, None, id="nothing was counted"),
        pytest.param({0.1: 10.0, 0.2: 10.0, float("inf"): 10.0}, 0.5, 0.05, id="in the middle of the first bucket"),
        pytest.param({0.1: 0.0, 0.2: 10.0, float("inf"): 10.0}, 0.5, 0.15, id="in the middle of the second"),
        pytest.param({0.1: 0.0, 0.2: 1.0, float("inf"): 10.0}, 0.99, 0.2, id="beyond the last bound"),
    ],
)
def test_a_quantile_of_a_histogram(buckets: dict[float, float], part: float, expected: float | None) -> None:
    assert quantile(buckets, part) == (None if expected is None else pytest.approx(expected))


# --- who may ask, and for what -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/assets/app.js", "/queue", "/nodes", "/decisions", "/explain", "/nothing"])
async def test_every_answer_forbids_what_is_not_from_here(api_server: ApiServer, path: str) -> None:
    async with served(api_server) as (_, _, asks), asks.get(path) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "path", ["/", "/stream", "/explain/default/web", "/queue", "/nodes", "/nodes/n1", "/decisions"]
)
async def test_nothing_can_be_changed(api_server: ApiServer, method: str, path: str) -> None:
    async with served(api_server) as (_, _, asks), asks.request(method, path) as answer:
        assert answer.status == 405


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("127.0.0.1", 200, id="the address"),
        pytest.param("localhost:8080", 200, id="a forwarded port"),
        pytest.param("[::1]", 200, id="the other loopback"),
        pytest.param("evil.example", 421, id="a name that somebody points here"),
    ],
)
async def test_on_a_loopback_address_only_local_names_are_answered(
    api_server: ApiServer, host: str, status: int
) -> None:
    async with served(api_server) as (_, _, asks), asks.get("/queue", headers={"Host": host}) as answer:
        assert answer.status == status


async def test_a_file_that_has_not_changed_is_not_sent_again(api_server: ApiServer) -> None:
    async with served(api_server) as (_, _, asks):
        async with asks.get("/assets/app.js") as answer:
            assert answer.content_type == "text/javascript"
            tag = answer.headers["ETag"]
        async with asks.get("/assets/app.js", headers={"If-None-Match": tag}) as answer:
            assert answer.status == 304
        async with asks.get("/assets/..%2fserver.py") as answer:
            assert answer.status == 404


async def test_a_port_that_is_taken_is_one_line(api_server: ApiServer) -> None:
    async with podium(api_server) as service, PageServer(service) as page:
        with pytest.raises(PortError, match=f"cannot listen on 127.0.0.1:{page.port}: "):
            async with PageServer(service, port=page.port):
                pass


async def test_a_node_lists_its_pods_the_most_important_first(api_server: ApiServer) -> None:
    api_server.create(zoned("n1", "zone-a"))
    api_server.create(ours("low", "1"))
    api_server.create(ours("high", "1", priorityClassName="system-cluster-critical"))
    async with served(api_server) as (service, _, asks):
        await until(lambda: len(service.cache.pods) == 2, "both are placed")
        async with asks.get("/nodes/n1") as answer:
            document = await answer.json()
        assert [pod["name"] for pod in document["podList"]] == ["high", "low"]
        assert document["podList"][1]["requests"]["cpu"] == "1"
        async with asks.get("/nodes/n9") as answer:
            assert (answer.status, await answer.text()) == (404, "there is no node n9\n")


# --- the files -----------------------------------------------------------------------------------------------------


def test_a_wheel_holds_every_file_of_the_page() -> None:
    root = Path(__file__).parents[3]
    patterns = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["podium.page"]
    for name in files():
        assert any(fnmatch(f"static/{name}", pattern) for pattern in patterns), name


def test_what_the_files_ask_for_is_there_and_nothing_is_asked_of_others() -> None:
    found = files()
    for name, file in found.items():
        text = file.body.decode()
        for asset in re.findall(r'"/assets/([^"]+)"', text):
            assert asset in found, f"{name} asks for {asset}"
        for module in re.findall(r'from "\./([^"]+)"', text):
            assert module in found, f"{name} imports {module}"
        addresses = set(re.findall(r"(?:https?:)?//[a-z][\w.-]+\.[a-z]+[^\s\"']*", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
    index = found["index.html"].body.decode()
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", index), "inline code or style"
