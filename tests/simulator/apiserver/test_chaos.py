"""Chaos as one line of text: what it means, and what it does to the requests of a client."""

from collections import Counter

import aiohttp
import msgspec.json
import pytest

from simulator.apiserver.chaos import DEFAULT, KINDS, ChaosError, unleash
from simulator.apiserver.faults import Faults

NODE = {"metadata": {"name": "n"}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("floods=1%", "'floods' is not one of latency, errors", id="unknown"),
        pytest.param("errors", "errors: a share of the requests such as 2% is expected, got ''", id="no share"),
        pytest.param("errors=120%", "errors: a share of the requests", id="too large a share"),
        pytest.param("latency=5%", "latency: a time such as 50ms or 2s is expected, got '5%'", id="no time"),
        pytest.param("nodes=0s", "nodes: an interval such as 30s is expected, got '0s'", id="all the time"),
        pytest.param("nodes=9s:x2", "nodes: happens to the whole cluster, so 'x2' says", id="an interval and a count"),
        pytest.param("errors=1%:steal", r"errors: a verb \(get, .*, got 'steal'", id="no verb"),
        pytest.param("watch-ends=1%:list", r"watch-ends: a verb \(watch\), .*, got 'list'", id="not of a list"),
        pytest.param("errors=1%:/a[", r"errors: '/a\[' is no regular expression", id="no path"),
    ],
)
def test_what_is_not_understood_is_told(text, told):
    faults = Faults()
    with pytest.raises(ChaosError, match=told):
        unleash(faults, f"cuts=1%,{text}")
    assert not faults.active


def test_without_a_word_there_is_a_little_of_all_that_hits_everybody():
    faults = Faults()
    unleash(faults)
    assert faults.active
    assert {part.partition("=")[0] for part in DEFAULT.split(",")} <= set(KINDS)


async def outcomes(server, requests=200):
    """Count what becomes of requests, each on a connection of its own."""
    seen = Counter()
    async with aiohttp.ClientSession(server.url, connector=aiohttp.TCPConnector(force_close=True)) as session:
        for _ in range(requests):
            try:
                # A POST, for clients send a GET that was cut once more.
                async with session.post("/api/v1/nodes?dryRun=All", json=NODE) as response:
                    await response.read()
                    seen[response.status, response.content_type] += 1
            except aiohttp.ClientError:
                seen["cut"] += 1
    return seen


async def test_requests_meet_what_was_asked_for_and_the_same_seed_draws_the_same(api_server):
    text = "errors=10%,pages=10%,cuts=10%,watch-cuts=100%"
    unleash(api_server.faults, text)
    first = await outcomes(api_server)
    assert set(first) == {(201, "application/json"), (500, "application/json"), (503, "text/html"), "cut"}
    assert first[201, "application/json"] > 100
    api_server.faults.clear()
    api_server.faults.random.seed(0)
    unleash(api_server.faults, text)
    assert await outcomes(api_server) == first


@pytest.mark.parametrize(
    ("word", "hit", "spared"),
    [
        pytest.param("errors=100%", ("get", "/api/v1/pods"), ("watch", "/api/v1/pods?watch=1"), id="no watch"),
        pytest.param("errors=100%:create", ("create", "/api/v1/nodes"), ("get", "/api/v1/nodes/n"), id="by verb"),
        pytest.param("cuts=100%:/binding", ("create", "/p/binding?x=1"), ("create", "/p"), id="by path"),
        pytest.param("expired-tokens=100%", ("list", "/p?limit=1&continue=x"), ("list", "/p?limit=1"), id="continued"),
        pytest.param("expired-tokens=100%:/p", ("list", "/p?continue=x"), ("list", "/n?continue=x"), id="both"),
        pytest.param("watch-cuts=100%:/p", ("watch", "/p?watch=1"), ("watch", "/n?watch=1"), id="a watch by path"),
    ],
)
def test_a_word_narrows_what_is_hit(word, hit, spared):
    faults = Faults()
    assert unleash(faults, word) == {}
    assert len(faults.strike(*hit)) == 1
    assert faults.strike(*spared) == []


def test_a_count_ends_a_fault_and_intervals_are_left_to_others():
    faults = Faults()
    assert unleash(faults, "nodes=30s,errors=100%:x2,relists=500ms") == {"nodes": 30.0, "relists": 0.5}
    assert [len(faults.strike("get", "/p")) for _ in range(3)] == [1, 1, 0]


async def test_forced_relists_break_watches_whose_clients_cannot_go_on(api_server):
    api_server.create(NODE | {"apiVersion": "v1", "kind": "Node"})
    async with aiohttp.ClientSession(api_server.url) as session:
        async with session.get("/api/v1/nodes?watch=1") as response:
            version = msgspec.json.decode(await response.content.readline())["object"]["metadata"]["resourceVersion"]
            api_server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
            api_server.store.force_relists()
            with pytest.raises(aiohttp.ClientError):
                assert not await response.content.read()
        async with session.get(f"/api/v1/nodes?watch=1&resourceVersion={version}") as response:
            assert msgspec.json.decode(await response.content.readline())["object"]["code"] == 410
