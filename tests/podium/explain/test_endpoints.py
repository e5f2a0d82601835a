"""The endpoints of a running podium, and the command that asks them."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from podium.explain.asking import NoSuchPodError, UnreachableError, _ask
from podium.explain.documents import Explanation
from podium.http import HttpServer
from simulator.apiserver import ApiServer
from tests.podium.harness import podium, until

NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "a"}},
    "spec": {"taints": [{"key": "dedicated", "value": "db", "effect": "PreferNoSchedule"}]},
    "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
}


def pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "podium",
            "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
    }


async def get(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 200
        return await answer.json()


@pytest.mark.looptime(False)
async def test_endpoints(api_server: ApiServer) -> None:
    for each in (NODE, pod("fits", "1"), pod("large", "8"), pod("gated", "1", schedulingGates=[{"name": "a/b"}])):
        api_server.create(each)
    async with podium(api_server) as service, HttpServer(service, "127.0.0.1", 0) as http:
        await until(lambda: len(service.scheduler.decisions) >= 2, "two decisions")
        await until(lambda: "uid" in str(service.cache.pods) or bool(service.cache.pods), "the bind")
        url = f"http://127.0.0.1:{http.port}"

        (explanation,) = await _ask(url, "default", "large")
        assert isinstance(explanation, Explanation)
        assert explanation.verdict == ("It does not fit on the only node: 8 CPU requested, more than n1 has (2).")
        assert explanation.queue is not None
        assert (explanation.queue.pool, explanation.queue.attempts) == ("unschedulable", 1)
        assert explanation.last_decision is not None
        assert "1 Insufficient cpu" in explanation.last_decision.message
        assert [wake.plugin for wake in explanation.wakes] == ["NodeResourcesFit"]

        assert {each.name for each in await _ask(url, "default", "")} == {"large", "gated"}
        with pytest.raises(NoSuchPodError, match="did you mean default/large"):
            await _ask(url, "default", "larg")

        queue = await get(f"{url}/queue")
        assert queue["lengths"] == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 1}
        by_name = {each["name"]: each for each in queue["pods"]}
        assert by_name["large"]["reasons"] == ["Insufficient cpu"]
        assert (by_name["gated"]["pool"], by_name["gated"]["refusedBy"]) == ("gated", ["SchedulingGates"])

        (node,) = (await get(f"{url}/nodes"))["nodes"]
        assert (node["zone"], node["taints"], node["pods"]) == ("a", ["dedicated=db:PreferNoSchedule"], 1)
        assert node["resources"]["cpu"] == {"allocatable": "2", "requested": "1", "share": 0.5}

        decisions = await get(f"{url}/decisions?limit=1")
        assert (len(decisions["decisions"]), decisions["more"]) == (1, 1)

        async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
            metrics = await answer.text()
        assert 'podium_unschedulable_reason{plugin="NodeResourcesFit",reason="insufficient_cpu"} 1.0' in metrics
        assert 'podium_unschedulable_reason{plugin="SchedulingGates",reason="gated"} 1.0' in metrics


async def test_nobody_answers() -> None:
    with pytest.raises(UnreachableError, match="no podium answers at"):
        await _ask("http://127.0.0.1:1", "default", "p")


async def test_somebody_else_answers(api_server: ApiServer) -> None:
    await asyncio.sleep(0)
    with pytest.raises((UnreachableError, NoSuchPodError)):
        await _ask(api_server.url, "default", "p")
