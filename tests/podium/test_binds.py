"""What the API server may answer to a bind, and what podium makes of it (virtual time, real HTTP)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podium.wiring import Service
from simulator.apiserver import ApiServer
from simulator.apiserver.faults import Answer, Cut, Hang, Latency, Rule, WatchDelay
from tests.fixtures_apiserver import node, pod
from tests.podium.harness import condition, events_of, node_of, podium, until

pytestmark = pytest.mark.looptime

BINDING = "/binding$"


def ours(name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    """A pod that names podium."""
    made = pod(name, schedulerName="podium", **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def counting_binds(server: ApiServer) -> Rule:
    """Its `hits` are the binds that were sent."""
    return server.faults.add(Latency(0.0), path=BINDING, verb="create", count=None)


def delayed_news_of_pods(server: ApiServer, seconds: float) -> Rule:
    """What happens to pods reaches podium this much later."""
    return server.faults.add(WatchDelay(seconds), path="/api/v1/pods", verb="watch", count=None)


async def quiet(service: Service) -> None:
    """Everything that was begun has ended."""
    await until(lambda: service.scheduler.idle, "nothing is in flight")


def conflicts(service: Service) -> float:
    """podium_bind_conflicts_total."""
    return service.metrics.bind_conflicts._value.get()


async def assert_never_called_unschedulable(service: Service, server: ApiServer, name: str) -> None:
    """Nobody was told that the pod could not be scheduled."""
    await service.recorder.flush()
    assert condition(server, name).get("status") in (None, "True")
    assert [e["reason"] for e in events_of(server, name) if e["reason"] != "Scheduled"] == []


async def test_a_conflict_because_the_pod_is_on_our_node_already_is_success(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    delayed_news_of_pods(api_server, 5.0)
    async with podium(api_server) as service:
        binds = counting_binds(api_server)
        api_server.create(ours("web"))
        await asyncio.sleep(0.1)
        api_server.bind("web", "n1")
        await until(lambda: binds.hits == 1, "podium tries to bind it, too")
        await until(lambda: not service.cache.assumed, "the informer confirms it")
        await quiet(service)
        await assert_never_called_unschedulable(service, api_server, "web")
        assert (binds.hits, conflicts(service), len(service.cache.pods)) == (1, 0, 1)
        assert [e["reason"] for e in events_of(api_server, "web")] == ["Scheduled"]


async def test_a_conflict_because_the_pod_is_bound_elsewhere_gives_the_room_back(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    api_server.create(node("theirs", unschedulable=True))
    delayed_news_of_pods(api_server, 5.0)
    async with podium(api_server) as service:
        binds = counting_binds(api_server)
        api_server.create(ours("web", cpu="3"))
        await asyncio.sleep(0.1)
        api_server.bind("web", "theirs")
        await until(lambda: binds.hits == 1, "podium tries to bind it to n1")
        await quiet(service)
        assert service.cache.nodes["n1"].requested["pods"] == 0
        await until(lambda: bool(service.cache.pods), "the informer shows it")
        assert service.cache.nodes["theirs"].requested["cpu"] == 3000
        await assert_never_called_unschedulable(service, api_server, "web")
        assert (binds.hits, conflicts(service)) == (1, 1)


async def test_a_conflict_of_another_kind_is_counted_and_the_pod_is_scheduled_again_at_once(
    api_server: ApiServer,
) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        binds = counting_binds(api_server)
        api_server.faults.add(Answer(409, message="the object has been modified"), path=BINDING)
        started = asyncio.get_running_loop().time()
        api_server.create(ours("web"))
        await until(lambda: node_of(api_server, "web") == "n1", "web is bound")
        assert asyncio.get_running_loop().time() - started < 0.5
        assert (binds.hits, conflicts(service)) == (2, 1)


async def test_conflict_after_conflict_is_waited_for_like_any_error(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        binds = counting_binds(api_server)
        storm = api_server.faults.add(Answer(409), path=BINDING, count=None)
        api_server.create(ours("web"))
        await asyncio.sleep(60.0)
        assert 5 <= binds.hits <= 15
        api_server.faults.remove(storm)
        await until(lambda: node_of(api_server, "web") == "n1", "web is bound")
        assert conflicts(service) == binds.hits - 1


@pytest.mark.parametrize(
    "again", [pytest.param(False, id="and is gone for good"), pytest.param(True, id="and another has its name by now")]
)
async def test_a_pod_that_is_gone_when_it_is_to_be_bound_is_dropped(api_server: ApiServer, again: bool) -> None:
    api_server.create(node("n1"))
    delayed_news_of_pods(api_server, 5.0)
    async with podium(api_server) as service:
        binds = counting_binds(api_server)
        api_server.create(ours("web"))
        await asyncio.sleep(0.1)
        api_server.delete("pods", "web", grace_seconds=0)
        if again:
            api_server.create(ours("web"))
        await until(lambda: binds.hits == 1, "podium tries to bind it")
        await quiet(service)
        assert (service.cache.pods, service.scheduler.queue.pending_pods()) == ({}, [])
        if again:
            await until(lambda: node_of(api_server, "web") == "n1", "the other one is bound")
        await until(lambda: not service.debugger.compare().lines(), "the informer knows")
        assert conflicts(service) == 1
        assert [e["reason"] for e in events_of(api_server, "web") if e["reason"] != "Scheduled"] == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Answer(422), id="422"),
        pytest.param(Answer(404), id="a 404 of something in between"),
        pytest.param(Answer(403), id="403"),
        pytest.param(Answer(500), id="500"),
        pytest.param(Answer(503, html=True), id="503 as a page of HTML"),
        pytest.param(Answer(504), id="504"),
        pytest.param(Cut(applied=False), id="a connection that breaks before the bind is carried out"),
        pytest.param(Hang(), id="a server that never answers"),
    ],
)
async def test_a_bind_that_failed_is_an_error_and_the_pod_is_retried_after_its_backoff(
    api_server: ApiServer, answer: Any
) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        binds = counting_binds(api_server)
        api_server.faults.add(answer, path=BINDING)
        api_server.create(ours("web"))
        await until(lambda: bool(condition(api_server, "web")), "web has a condition")
        assert condition(api_server, "web")["reason"] == "SchedulerError"
        assert service.cache.nodes["n1"].requested["pods"] == 0
        failed_at = asyncio.get_running_loop().time()
        await until(lambda: node_of(api_server, "web") == "n1", "web is bound")
        assert 0.9 <= asyncio.get_running_loop().time() - failed_at <= 3.0
        assert (binds.hits, conflicts(service)) == (2, 0)
        assert service.metrics.schedule_attempts.labels("error", "podium")._value.get() == 1


async def test_retry_after_is_waited_for_and_costs_no_attempt(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        api_server.faults.add(Answer(429, retry_after=7), path=BINDING, count=2)
        started = asyncio.get_running_loop().time()
        api_server.create(ours("web"))
        await until(lambda: node_of(api_server, "web") == "n1", "web is bound")
        assert 14.0 <= asyncio.get_running_loop().time() - started < 15.0
        await quiet(service)
        await assert_never_called_unschedulable(service, api_server, "web")
        assert [d.attempt for d in service.scheduler.decisions] == [1]


async def test_a_bind_whose_answer_was_lost_is_found_out(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    delayed_news_of_pods(api_server, 5.0)
    async with podium(api_server) as service:
        binds = counting_binds(api_server)
        api_server.faults.add(Cut(applied=True), path=BINDING)
        api_server.create(ours("web"))
        await until(lambda: bool(service.cache.pods), "web is assumed")
        await quiet(service)
        assert service.cache.is_assumed(api_server.get("pods", "web")["metadata"]["uid"])
        await until(lambda: not service.cache.assumed, "the informer confirms it")
        await assert_never_called_unschedulable(service, api_server, "web")
        assert (binds.hits, conflicts(service)) == (1, 0)
        assert service.metrics.schedule_attempts.labels("scheduled", "podium")._value.get() == 1


async def test_room_stays_taken_for_as_long_as_nobody_knows_whether_a_pod_is_bound(api_server: ApiServer) -> None:
    api_server.create(node("n1", cpu="1"))
    delayed_news_of_pods(api_server, 90.0)
    async with podium(api_server) as service:
        binds = counting_binds(api_server)
        api_server.create(ours("first", cpu="800m"))
        api_server.create(ours("second", cpu="800m"))
        api_server.faults.add(Cut(applied=True), path=BINDING)
        unreadable = api_server.faults.add(Answer(503), path="/pods/first", verb="get", count=None)
        await until(lambda: binds.hits == 1, "the first bind is sent")
        await asyncio.sleep(60.0)
        assert unreadable.hits > 5
        assert binds.hits == 1, "the second pod must not get the room of the first"
        assert service.cache.nodes["n1"].requested["cpu"] == 800
        api_server.faults.remove(unreadable)
        await quiet(service)
        assert node_of(api_server, "second") == ""
        assert condition(api_server, "first")["status"] == "True"


async def test_a_bind_of_unknown_end_is_settled_by_the_informer_where_the_pod_cannot_be_read(
    api_server: ApiServer,
) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        api_server.faults.add(Cut(applied=True), path=BINDING)
        api_server.faults.add(Answer(503), path="/pods/web", verb="get", count=None)
        api_server.create(ours("web"))
        await until(lambda: node_of(api_server, "web") == "n1", "web is bound")
        await quiet(service)
        assert service.metrics.schedule_attempts.labels("scheduled", "podium")._value.get() == 1
        assert conflicts(service) == 0


async def test_two_schedulers_overfill_a_node_and_the_room_of_the_failed_pod_is_free_at_once(
    api_server: ApiServer,
) -> None:
    """The other's pod is bound after our decision and before we hear of it; the kubelet refuses ours."""
    api_server.create(node("f", cpu="1"))
    api_server.create(pod("b", schedulerName="other"))
    async with podium(api_server) as service:
        api_server.create(ours("a", cpu="950m"))
        await until(lambda: node_of(api_server, "a") == "f", "a is bound")
        api_server.bind("b", "f")
        await until(lambda: len(service.cache.pods) == 2 and not service.cache.assumed, "both count")
        info = service.cache.nodes["f"]
        assert info.allocatable["cpu"] - info.requested["cpu"] == -50
        api_server.create(ours("nothing-asked", cpu="0"))
        api_server.create(ours("a2", cpu="900m"))
        await until(lambda: node_of(api_server, "nothing-asked") == "f", "a pod without requests fits")
        await until(lambda: bool(condition(api_server, "a2")), "a2 was tried")
        failed = {"status": {"phase": "Failed", "reason": "OutOfcpu"}}
        api_server.patch("pods", "a", failed, status=True)
        await until(lambda: node_of(api_server, "a2") == "f", "a2 gets the room of a")
        assert len([d for d in service.scheduler.decisions if d.name == "a"]) == 1
