"""Faults on demand, as a client meets them."""

import asyncio
import json

import aiohttp
import pytest

from simulator.apiserver import ApiServer
from simulator.apiserver.faults import (
    Answer,
    Cut,
    Faults,
    Hang,
    Latency,
    WatchCut,
    WatchDelay,
    WatchEnd,
    WatchExpired,
    WatchGarbage,
    WatchSilent,
)
from tests.fixtures_apiserver import pod

PODS = "/api/v1/namespaces/default/pods"
WATCH = PODS + "?watch=true"


async def status_of(response):
    async with response:
        await response.read()
        return response.status


async def test_a_fault_strikes_as_often_as_it_was_told(http, api_server):
    rule = api_server.faults.add(Answer(500), path="/pods", verb="list", count=2)
    assert [await status_of(await http.get(PODS)) for _ in range(3)] == [500, 500, 200]
    assert rule.hits == 2


@pytest.mark.parametrize(
    ("verb", "path", "struck"),
    [
        pytest.param("list", "", True, id="the verb"),
        pytest.param("watch", "", False, id="another verb"),
        pytest.param("", "/pods$", True, id="the path"),
        pytest.param("", "/nodes", False, id="another path"),
    ],
)
async def test_a_fault_is_about_a_verb_and_a_path(http, api_server, verb, path, struck):
    api_server.faults.add(Answer(503), verb=verb, path=path)
    assert (await status_of(await http.get(PODS)) == 503) is struck


async def test_too_many_requests_says_when_to_come_back(http, api_server):
    api_server.faults.add(Answer(429, retry_after=3))
    async with http.get(PODS) as response:
        refusal = await response.json()
    assert (response.status, response.headers["Retry-After"]) == (429, "3")
    assert (refusal["reason"], refusal["details"]["retryAfterSeconds"]) == ("TooManyRequests", 3)


async def test_a_proxy_answers_in_html(http, api_server):
    api_server.faults.add(Answer(503, html=True))
    async with http.get(PODS) as response:
        assert (response.status, response.content_type) == (503, "text/html")


@pytest.mark.parametrize(
    ("applied", "stored"),
    [
        pytest.param(False, 0, id="before the request is carried out"),
        pytest.param(True, 1, id="after it: the client cannot know"),
    ],
)
async def test_the_connection_breaks(http, api_server, applied, stored):
    api_server.faults.add(Cut(applied=applied), verb="create")
    with pytest.raises(aiohttp.ClientError):
        await http.post(PODS, json=pod("p"))
    assert len(api_server.list("pods")) == stored


async def test_a_hanging_request_ends_with_the_client_s_patience(http, api_server):
    api_server.faults.add(Hang(), verb="create")
    with pytest.raises(TimeoutError):
        await http.post(PODS, json=pod("p"), timeout=aiohttp.ClientTimeout(total=0.1))
    assert api_server.list("pods") == []


async def test_latency_only_delays(http, api_server):
    api_server.faults.add(Latency(0.01, jitter=0.01))
    assert await status_of(await http.get(PODS)) == 200


async def events_of(response):
    events = []
    async with asyncio.timeout(10):
        while line := await response.content.readline():
            events.append(line)
    return events


def names(lines):
    return [json.loads(line)["object"]["metadata"]["name"] for line in lines]


async def test_a_watch_ends_early(http, api_server):
    api_server.faults.add(WatchEnd(after_lines=2), verb="watch")
    for name in "abc":
        api_server.create(pod(name))
    async with http.get(WATCH) as response:
        assert names(await events_of(response)) == ["a", "b"]


@pytest.mark.parametrize("mid_line", [pytest.param(False, id="between lines"), pytest.param(True, id="inside a line")])
async def test_the_connection_of_a_watch_breaks(http, api_server, mid_line):
    api_server.faults.add(WatchCut(after_lines=1, mid_line=mid_line), verb="watch")
    for name in "ab":
        api_server.create(pod(name))
    received = bytearray()

    async def read(content):
        async for chunk in content.iter_any():
            received.extend(chunk)

    async with http.get(WATCH) as response:
        with pytest.raises(aiohttp.ClientError):
            await read(response.content)
    whole, _, half = received.partition(b"\n")
    assert names([whole]) == ["a"]
    assert half.startswith(b'{"type":"ADDED"') is mid_line
    assert not half.endswith(b"\n")


async def test_a_410_arrives_inside_the_stream(http, api_server):
    api_server.faults.add(WatchExpired(after_lines=1), verb="watch")
    for name in "ab":
        api_server.create(pod(name))
    async with http.get(WATCH) as response:
        first, last = await events_of(response)
    assert names([first]) == ["a"]
    error = json.loads(last)
    assert (error["type"], error["object"]["kind"], error["object"]["code"]) == ("ERROR", "Status", 410)


async def test_a_410_before_the_first_event(http, api_server):
    api_server.faults.add(WatchExpired(), verb="watch")
    async with http.get(WATCH + "&resourceVersion=1") as response:
        (line,) = await events_of(response)
    assert json.loads(line)["type"] == "ERROR"


async def test_a_410_as_the_answer_to_a_list_or_a_watch(http, api_server):
    api_server.faults.add(Answer(410), path="/pods", count=2)
    for path in (PODS, WATCH):
        async with http.get(path) as response:
            assert (response.status, (await response.json())["reason"]) == (410, "Expired")


async def test_garbage_in_a_watch(http, api_server):
    api_server.faults.add(WatchGarbage(line=b"{]\n"), verb="watch")
    async with http.get(WATCH) as response:
        assert await events_of(response) == [b"{]\n"]


async def test_a_half_open_watch_says_nothing_more(http, api_server):
    api_server.faults.add(WatchSilent(after_lines=1), verb="watch")
    api_server.watches.bookmark_period = 0.01
    for name in "ab":
        api_server.create(pod(name))
    async with http.get(WATCH + "&allowWatchBookmarks=true") as response:
        assert names([await response.content.readline()]) == ["a"]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await response.content.readline()


async def test_delayed_events_of_one_resource_come_after_later_ones_of_another(http, api_server):
    api_server.faults.add(WatchDelay(0.2), path="/pods", verb="watch")
    order = []

    async def read(path):
        async with http.get(path) as response:
            order.append(json.loads(await response.content.readline())["object"]["kind"])

    api_server.create(pod("first"))
    api_server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "second"}})
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(read(WATCH))
        tasks.create_task(read("/api/v1/configmaps?watch=true"))
    assert order == ["ConfigMap", "Pod"]


def test_chance_comes_from_the_seed():
    def strikes(seed):
        faults = Faults(seed)
        faults.add(Answer(500), count=None, probability=0.5)
        return [bool(faults.strike("get", "/")) for _ in range(50)]

    assert strikes(1) == strikes(1) != strikes(2)
    assert 10 < sum(strikes(1)) < 40


async def test_faults_can_be_taken_back(http, api_server):
    rule = api_server.faults.add(Answer(500), count=None)
    api_server.faults.add(Answer(503), count=None)
    assert await status_of(await http.get(PODS)) == 500
    api_server.faults.remove(rule)
    assert await status_of(await http.get(PODS)) == 503
    api_server.faults.clear()
    assert await status_of(await http.get(PODS)) == 200


async def test_stopping_does_not_wait_for_a_silent_watch():
    async with ApiServer() as server, aiohttp.ClientSession(server.url) as session:
        server.faults.add(WatchSilent())
        async with session.get(WATCH) as response:
            async with asyncio.timeout(10):
                await server.stop()
            with pytest.raises(aiohttp.ClientError):
                await response.read()
