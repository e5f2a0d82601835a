"""The API server fails in every way it can: nothing is lost, nothing is bound twice (virtual time, real HTTP)."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from kube.api.quantity import milli_value
from kube.client import rest
from podium.wiring import Service
from scheduler.snapshot.pod_index import PodIndex
from simulator.apiserver import ApiServer
from simulator.apiserver.faults import (
    Answer,
    Cut,
    Effect,
    Hang,
    Latency,
    WatchCut,
    WatchDelay,
    WatchEnd,
    WatchExpired,
    WatchGarbage,
    WatchSilent,
)
from tests.fixtures_apiserver import node, pod
from tests.podium.harness import check, condition, events_of, node_of, podium, until

pytestmark = pytest.mark.looptime

#: storms that are tried; more of them on request
SEEDS = range(int(os.environ.get("PODIUM_STORMS", "24")))


@pytest.fixture(autouse=True)
def short_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A half-open watch is noticed at the end of its time: half a minute here, five to ten in a cluster."""
    monkeypatch.setattr(rest, "WATCH_SECONDS", (20, 40))


WRITES = ("/binding$", "/status$", "/events")


def ours(name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    """A pod that names podium."""
    made = pod(name, schedulerName="podium", **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def cpu_of(obj: dict[str, Any]) -> int:
    """What a pod asks for, in milliCPU."""
    return milli_value(obj["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def assert_no_node_is_overfull(server: ApiServer) -> None:
    """By what the API server knows."""
    for each in server.list("nodes"):
        name = each["metadata"]["name"]
        used = sum(cpu_of(p) for p in server.list("pods") if p["spec"].get("nodeName") == name)
        assert used <= milli_value(each["status"]["allocatable"]["cpu"]), f"{name} is overfull"


async def recovered(service: Service, server: ApiServer, names: list[str]) -> None:
    """All of these pods are bound, and podium knows it."""
    await until(lambda: all(node_of(server, name) for name in names), "every pod is bound", 2000.0)
    await until(lambda: service.scheduler.idle and not service.cache.assumed, "all is quiet", 2000.0)
    await until(lambda: not service.debugger.compare().lines(), "cache and informers agree", 2000.0)
    check(service)
    assert_no_node_is_overfull(server)


# --- one thing at a time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "path", "verb"),
    [
        pytest.param(WatchExpired(), "/api/v1/(pods|nodes)", "watch", id="410 as an event of the watch"),
        pytest.param(WatchExpired(after_lines=2), "/api/v1/pods", "watch", id="410 after some events"),
        pytest.param(Answer(410), "/api/v1/(pods|nodes)", "watch", id="410 as the answer to a watch"),
        pytest.param(Answer(429, retry_after=3), "/api/v1/(pods|nodes)", "", id="429 to lists and watches"),
        pytest.param(Answer(500), "/api/v1/(pods|nodes)", "", id="500 to lists and watches"),
        pytest.param(Answer(503, html=True), "/api/v1/(pods|nodes)", "", id="HTML instead of JSON"),
        pytest.param(WatchGarbage(), "/api/v1/(pods|nodes)", "watch", id="HTML within a watch"),
        pytest.param(WatchCut(), "/api/v1/(pods|nodes)", "watch", id="watches that are cut"),
        pytest.param(WatchCut(after_lines=1, mid_line=True), "/api/v1/(pods|nodes)", "watch", id="cut within a line"),
        pytest.param(WatchEnd(after_lines=1), "/api/v1/(pods|nodes)", "watch", id="watches that end early"),
        pytest.param(WatchSilent(after_lines=1), "/api/v1/(pods|nodes)", "watch", id="watches that are half open"),
        pytest.param(Hang(), "/api/v1/(pods|nodes)", "watch", id="watches that are never answered"),
        pytest.param(Cut(), "", "", id="no request gets through"),
    ],
)
async def test_watches_recover(api_server: ApiServer, effect: Effect, path: str, verb: str) -> None:
    """A node and a pod are replaced while podium cannot see it."""
    api_server.create(node("a", cpu="1"))
    api_server.create(node("b", cpu="1"))
    async with podium(api_server) as service:
        api_server.create(ours("p1", cpu="900m", nodeName="a"))
        api_server.create(ours("p2", cpu="900m", nodeName="b"))
        api_server.create(ours("waits", cpu="900m"))
        await until(lambda: bool(condition(api_server, "waits")), "it has to wait")
        rule = api_server.faults.add(effect, path=path, verb=verb, count=None)
        await asyncio.sleep(0.0)
        api_server.store.close()  # every watch ends, and the next ones meet the fault
        await asyncio.sleep(20.0)
        api_server.delete("pods", "p1", grace_seconds=0)
        api_server.delete("nodes", "b")
        api_server.create(node("c", cpu="100m"))
        await asyncio.sleep(20.0)
        api_server.faults.remove(rule)
        await recovered(service, api_server, ["waits"])
        assert node_of(api_server, "waits") == "a"
        nodes = service.cache.nodes.values()
        await until(
            lambda: {info.name for info in nodes if info.node is not None} == {"a", "c"},
            "b is gone, c is there",
            2000.0,
        )
        assert sorted(state.info.key for state in service.cache.pods.values()) == ["default/p2", "default/waits"]


async def test_a_pod_that_came_and_went_unseen_is_in_no_queue(api_server: ApiServer) -> None:
    """As far as podium knew, k was pending; meanwhile it was bound by hand and deleted."""
    api_server.create(node("g1", cpu="1"))
    async with podium(api_server) as service:
        api_server.create(ours("k", cpu="2"))
        await until(lambda: bool(condition(api_server, "k")), "k was tried")
        rule = api_server.faults.add(WatchSilent(), path="/api/v1/pods", verb="watch", count=None)
        api_server.store.close()
        await asyncio.sleep(5.0)
        api_server.bind("k", "g1")
        api_server.delete("pods", "k", grace_seconds=0)
        api_server.faults.remove(rule)
        await until(lambda: not service.scheduler.queue.pending_pods(), "k is in no queue", 2000.0)
        await recovered(service, api_server, [])


@pytest.mark.parametrize("seconds", [3.0, 120.0])
async def test_the_api_server_is_down_for_a_while(api_server: ApiServer, seconds: float) -> None:
    api_server.create(node("n1", cpu="2"))
    async with podium(api_server) as service:
        for i in range(10):
            api_server.create(ours(f"before-{i}"))
        await until(lambda: node_of(api_server, "before-0") != "", "the first is bound")
        await api_server.stop()
        for i in range(5):
            api_server.create(ours(f"during-{i}"))
        await asyncio.sleep(seconds)
        await api_server.start()
        await recovered(service, api_server, [f"before-{i}" for i in range(10)] + [f"during-{i}" for i in range(5)])


async def test_a_pod_that_stays_unschedulable_is_written_to_once_however_often_it_is_tried(
    api_server: ApiServer,
) -> None:
    api_server.create(node("n1", cpu="1"))
    async with podium(api_server) as service:
        patches = api_server.faults.add(Latency(0.0), path="/pods/big/status$", verb="patch", count=None)
        api_server.create(ours("big", cpu="4"))
        await until(lambda: bool(condition(api_server, "big")), "big was tried")
        for i in range(5):
            api_server.create(node(f"small-{i}", cpu="1", unschedulable=True))
            api_server.patch("nodes", f"small-{i}", {"spec": {"unschedulable": None}})
            api_server.delete("nodes", f"small-{i}")
            await asyncio.sleep(15.0)
        tries = [d for d in service.scheduler.decisions if d.name == "big"]
        texts = {d.message for d in tries}
        assert patches.hits == len(texts)


async def test_events_never_hold_up_scheduling_and_are_bounded(api_server: ApiServer) -> None:
    """The events endpoint is slow, then busy, then forbidden."""
    api_server.create(node("n1", cpu="1"))
    async with podium(api_server) as service:
        sent = api_server.faults.add(Latency(2.0), path="/events", count=None)
        for i in range(300):
            api_server.create(ours(f"big-{i}", cpu="4"))
        await until(lambda: len({d.name for d in service.scheduler.decisions}) == 300, "all were tried", 5.0)
        api_server.faults.remove(sent)
        busy = api_server.faults.add(Answer(429, retry_after=1), path="/events", count=None)
        await asyncio.sleep(30.0)
        api_server.faults.remove(busy)
        api_server.faults.add(Answer(403), path="/events", count=None)
        api_server.create(ours("small"))
        started = asyncio.get_running_loop().time()
        await until(lambda: node_of(api_server, "small") == "n1", "a pod that fits is bound")
        assert asyncio.get_running_loop().time() - started < 1.0
        await service.recorder.flush()
        assert all(len(e["note"]) <= 1024 for i in range(300) for e in events_of(api_server, f"big-{i}"))


async def test_a_token_that_was_replaced_is_read_again(api_server: ApiServer) -> None:
    """The server refuses the credentials for a while: 401 is no 410, and podium neither ends nor runs in circles."""
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        rule = api_server.faults.add(Answer(401), count=None)
        api_server.store.close()
        api_server.create(ours("web"))
        await asyncio.sleep(60.0)
        assert rule.hits < 500
        api_server.faults.remove(rule)
        await recovered(service, api_server, ["web"])


# --- everything at once ------------------------------------------------------------------------------------------


def random_fault(rng: random.Random) -> tuple[Effect, str, str]:
    """(effect, path, verb)."""
    choice: Callable[[], tuple[Effect, str, str]] = rng.choice(
        [
            lambda: (Answer(429, retry_after=rng.randint(1, 5)), rng.choice(("", *WRITES, "/api/v1/pods")), ""),
            lambda: (Answer(500), rng.choice(("", *WRITES, "/api/v1/nodes")), ""),
            lambda: (Answer(503, html=True), rng.choice(("", *WRITES)), ""),
            lambda: (Answer(409), "/binding$", ""),
            lambda: (Answer(410), "/api/v1/", rng.choice(("watch", "list"))),
            lambda: (Cut(applied=False), rng.choice(("", *WRITES)), ""),
            lambda: (Cut(applied=True), rng.choice(WRITES), ""),
            lambda: (Hang(rng.choice((5.0, 40.0))), rng.choice(("", *WRITES)), ""),
            lambda: (Latency(rng.random(), rng.random()), rng.choice(("", *WRITES)), ""),
            lambda: (WatchEnd(rng.randint(0, 5)), "/api/v1/", "watch"),
            lambda: (WatchCut(rng.randint(0, 5), rng.random() < 0.5), "/api/v1/", "watch"),
            lambda: (WatchExpired(rng.randint(0, 5)), "/api/v1/", "watch"),
            lambda: (WatchGarbage(rng.randint(0, 5)), "/api/v1/", "watch"),
            lambda: (WatchSilent(rng.randint(0, 5)), rng.choice(("/api/v1/pods", "/api/v1/nodes")), "watch"),
            lambda: (WatchDelay(rng.random() * 5), rng.choice(("/api/v1/pods", "/api/v1/nodes")), "watch"),
        ]
    )
    return choice()


class Storm:
    """A workload under random faults. All chance comes from the seed."""

    def __init__(self, server: ApiServer, seed: int) -> None:
        self.server = server
        self.rng = random.Random(seed)
        self.created = 0

    def furnish(self) -> None:
        """Six nodes of 2 CPU."""
        for i in range(6):
            self.server.create(node(f"n{i}", cpu="2"))

    async def rage(self) -> None:
        """Some minutes of it."""
        for _ in range(self.rng.randint(10, 20)):
            self._cause_a_fault()
            for _ in range(self.rng.randint(0, 4)):
                self._work()
            await asyncio.sleep(self.rng.random() * 10)
        self.server.faults.clear()

    def _cause_a_fault(self) -> None:
        effect, path, verb = random_fault(self.rng)
        count = self.rng.choice((1, 3, 10, None))
        rule = self.server.faults.add(effect, path=path, verb=verb, count=count, probability=self.rng.random())
        if count is None:
            asyncio.get_running_loop().call_later(self.rng.random() * 30, self._end, rule)
        if self.rng.random() < 0.3:
            self.server.store.close()

    def _end(self, rule: Any) -> None:
        if rule in self.server.faults._rules:
            self.server.faults.remove(rule)

    def _work(self) -> None:
        """A pod comes, one goes, another scheduler binds one, a node is touched."""
        kind = self.rng.random()
        pods = self.server.list("pods")
        if kind < 0.6 or not pods:
            self.created += 1
            self.server.create(ours(f"p{self.created}", cpu=f"{self.rng.randint(1, 4) * 100}m"))
        elif kind < 0.8:
            self.server.delete("pods", self.rng.choice(pods)["metadata"]["name"], grace_seconds=0)
        elif kind < 0.9:
            free = [p for p in pods if not p["spec"].get("nodeName")]
            if free:
                self._bind_by_another(self.rng.choice(free))
        else:
            labels = {"touched": str(self.rng.random())}
            self.server.patch("nodes", f"n{self.rng.randrange(6)}", {"metadata": {"labels": labels}})

    def _bind_by_another(self, chosen: dict[str, Any]) -> None:
        """To n0, where there is room; podium may be about to fill it, which nobody could exclude, so n0 is cordoned."""
        self.server.patch("nodes", "n0", {"spec": {"unschedulable": True}})
        used = sum(cpu_of(p) for p in self.server.list("pods") if p["spec"].get("nodeName") == "n0")
        if used + cpu_of(chosen) <= 1000:
            self.server.bind(chosen["metadata"]["name"], "n0")


async def leave_nothing(service: Service, server: ApiServer) -> None:
    """When all pods are gone, nothing in podium remembers one."""
    for each in server.list("pods"):
        server.delete("pods", each["metadata"]["name"], grace_seconds=0)
    scheduler, index = service.scheduler, service.snapshot.index(PodIndex)
    await until(lambda: not service.cache.pods and scheduler.idle, "nobody is left")
    assert scheduler.queue.pending_pods() == []
    assert (scheduler.left_alone, scheduler.queue.nominator._node_of) == (set(), {})
    assert (index._shapes, index._classes, index._terms) == ({}, {}, {})
    assert [info.requested for info in service.cache.nodes.values()] == [{"pods": 0}] * 6
    for informer in service.factory.informers:
        assert (len(informer.fifo), informer.fifo._tries) == (0, {})
        assert all(listener.idle for listener in informer.listeners)


@pytest.mark.parametrize("seed", SEEDS)
async def test_after_the_storm_every_pod_is_bound_once_and_everything_agrees(api_server: ApiServer, seed: int) -> None:
    storm = Storm(api_server, seed)
    storm.furnish()
    async with podium(api_server) as service:
        # n0 is the other scheduler's from the start: two schedulers on one node may overfill it, whoever they are.
        api_server.patch("nodes", "n0", {"spec": {"unschedulable": True}})
        await until(lambda: len(service.cache.nodes) == 6, "all nodes are known")
        await asyncio.sleep(1.0)
        tasks = len(asyncio.all_tasks())
        await storm.rage()
        names = [p["metadata"]["name"] for p in api_server.list("pods")]
        await recovered(service, api_server, names)
        assert service.scheduler.queue.pending_pods() == []
        assert service.scheduler.queue.in_flight_events() == 0
        assert service.debugger.mended == 0
        assert service.metrics.scheduled_after_flush._value.get() == 0
        await service.recorder.flush()
        # What a finished storm leaves behind: connections of the server that it has not noticed to be dead.
        await until(lambda: len(asyncio.all_tasks()) <= tasks + 20, "tasks come back to where they were", 1500.0)
        for name in names:
            assert condition(api_server, name).get("status") == "True"
        await leave_nothing(service, api_server)
