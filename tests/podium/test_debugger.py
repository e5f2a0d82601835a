"""Cache and queue compared with the informers: what is found, what is mended, what is dumped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from podium.wiring import Service
from simulator.apiserver import ApiServer
from tests.builders import make_node, make_pod
from tests.fixtures_apiserver import node, pod
from tests.podium.harness import condition, node_of, podium, until

pytestmark = pytest.mark.looptime


def ours(name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    """A pod that names podium."""
    made = pod(name, schedulerName="podium", **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def uid(service: Service, name: str) -> str:
    """The UID of a pod as the informer has it."""
    found = service.debugger._pods.get(f"default/{name}")
    assert found is not None
    return found.metadata.uid


def lose_node(service: Service) -> None:
    service.cache.remove_node("n1")


def keep_gone_node(service: Service) -> None:
    service.cache.add_node(make_node("ghost"))


def lose_assigned_pod(service: Service) -> None:
    service.cache.remove_pod(uid(service, "web"))


def count_pod_elsewhere(service: Service) -> None:
    state = service.cache.pods[uid(service, "web")]
    service.cache.remove_pod(state.info.uid)
    service.cache.assume_pod(state.info, "n2")


def keep_gone_pod(service: Service) -> None:
    service.cache.add_pod(make_pod("ghost", node_name="n2", cpu="1"))


def lose_pending_pod(service: Service) -> None:
    service.scheduler.queue.delete(uid(service, "big"))


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        pytest.param(lose_node, "missed nodes: ['n1'], redundant nodes: []", id="a node is missing"),
        pytest.param(keep_gone_node, "missed nodes: [], redundant nodes: ['ghost']", id="a node is there that is gone"),
        pytest.param(
            lose_assigned_pod, "missed pods: ['default/web'], redundant pods: []", id="a bound pod is missing"
        ),
        pytest.param(
            count_pod_elsewhere,
            "missed pods: ['default/web'], redundant pods: []",
            id="a bound pod is counted elsewhere",
        ),
        pytest.param(
            keep_gone_pod, "missed pods: [], redundant pods: ['default/ghost']", id="a pod is counted that is gone"
        ),
        pytest.param(
            lose_pending_pod, "missed pods: ['default/big'], redundant pods: []", id="a pending pod is in no queue"
        ),
    ],
)
async def test_what_disagrees_is_found_and_mended(
    api_server: ApiServer, harm: Callable[[Service], None], line: str
) -> None:
    api_server.create(node("n1"))
    api_server.create(node("n2"))
    async with podium(api_server) as service:
        api_server.create(ours("web"))
        api_server.create(ours("big", cpu="9"))
        await until(lambda: bool(node_of(api_server, "web")) and bool(condition(api_server, "big")), "both were tried")
        await until(lambda: service.scheduler.idle and not service.cache.assumed, "all is quiet")
        assert service.debugger.compare().lines() == []
        harm(service)
        assert service.debugger.compare().lines() == [f"Cache mismatch: {line}"]
        await until(lambda: not service.debugger.compare().lines(), "it is mended", 180.0)
        assert service.metrics.cache_corrections._value.get() == 1
        assert service.cache.validate() == []
        api_server.create(ours("next"))
        await until(lambda: bool(node_of(api_server, "next")), "podium goes on")


async def test_a_difference_that_goes_by_itself_is_not_mended(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        await until(lambda: bool(service.cache.nodes), "n1 is known")
        suspects = await service.debugger.check(())
        lose_node(service)
        suspects = await service.debugger.check(suspects)
        assert [each.key for each in suspects] == ["n1"]
        known = service.debugger._nodes.get("n1")
        assert known is not None
        service.cache.add_node(known)
        assert await service.debugger.check(suspects) == set()
        assert service.metrics.cache_corrections._value.get() == 0


async def test_the_dump_names_every_node_and_every_pending_pod(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        api_server.create(ours("web"))
        api_server.create(ours("big", cpu="9"))
        api_server.create(ours("held", schedulingGates=[{"name": "example.com/hold"}]))
        await until(lambda: bool(node_of(api_server, "web")) and bool(condition(api_server, "big")), "both were tried")
        await until(lambda: service.scheduler.idle and not service.cache.assumed, "all is quiet")
        lines = service.debugger.dump()
    assert lines[0] == "Cache comparison: no mismatch"
    [line] = [line for line in lines if line.startswith("n1: ")]
    assert line.endswith("pods: default/web")
    assert {"unschedulable: default/big", "gated: default/held"} <= set(lines)


async def test_what_cannot_be_mended_is_told_of_and_ends_nothing(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        await until(lambda: "n1" in service.cache.nodes, "n1 is known")
        service.cache.remove_node("n1")
        with monkeypatch.context() as patched:
            patched.setattr(service.cache, "add_node", lambda _: 1 / 0)
            suspects = await service.debugger.check(())
            await service.debugger.check(suspects)
        assert "n1 cannot be mended" in caplog.text
        await service.debugger.check(suspects)
        assert "n1" in service.cache.nodes
