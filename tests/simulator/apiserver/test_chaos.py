"""Chaos as one line of text: what it means, and what it does to the requests of a client."""

from collections import Counter

import aiohttp
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
