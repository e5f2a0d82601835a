"""Replicas: who leads, what a new leader must know before it binds, and what becomes of a killed one (virtual time)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from kube.api.core import Node, Pod
from kube.client.auth import Credentials
from kube.client.leader_election import LeadershipLost
from kube.client.rest import Client
from podium.configuration import Effective
from podium.http import HttpServer
from podium.wiring import PODS, Options, Service
from simulator.apiserver import ApiServer
from simulator.apiserver.faults import Answer, Hang, Latency, WatchSilent
from tests.fixtures_apiserver import node, pod
from tests.podium.harness import check, configured, effective, node_of, podium, until

pytestmark = pytest.mark.looptime

#: what a lease lasts, and the longest a candidate sleeps between two looks at it
LEASE, LOOK = 15.0, 2.0 * 2.2

DELAYED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
delayCacheUntilActive: true
"""


def ours(name: str, cpu: str = "100m") -> dict[str, Any]:
    """A pod that names podium."""
    made = pod(name, schedulerName="podium")
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


class Replica:
    """A podium that can be killed."""

    def __init__(self, service: Service, running: asyncio.Task[None]) -> None:
        self.service = service
        self.running = running

    @property
    def leads(self) -> bool:
        """Whether it believes to be the leader."""
        elector = self.service.elector
        return elector is not None and elector.is_leader

    async def kill(self) -> None:
        """As SIGKILL does: no request leaves it any more, not even the one that releases the lease."""
        elector = self.service.elector
        if elector is not None:
            elector._lease = None
        self.running.cancel()
        with suppress(asyncio.CancelledError):
            await self.running


@asynccontextmanager
async def replica(server: ApiServer, identity: str, configuration: Effective | None = None) -> AsyncIterator[Replica]:
    """One replica that takes part in the election."""
    async with Client(Credentials(server.url), qps=-1, burst=0) as client:
        service = Service(client, configuration or effective(), Options(seed=0, identity=identity))
        await service.build()
        running = asyncio.create_task(service.run())
        try:
            yield Replica(service, running)
        finally:
            service.stop()
            if not running.done():
                await running


def holder(server: ApiServer) -> str:
    """Who holds the lease."""
    return str(server.get("leases", "podium", "kube-system")["spec"].get("holderIdentity", ""))


@pytest.mark.parametrize("replicas", [2, 3])
async def test_after_a_leader_was_killed_another_takes_over_within_lease_and_retry(
    api_server: ApiServer, replicas: int
) -> None:
    for i in range(4):
        api_server.create(node(f"n{i}"))
    binds = api_server.faults.add(Latency(0.0), path="/binding$", verb="create", count=None)
    async with AsyncExitStack() as stack:
        all_of_them = [await stack.enter_async_context(replica(api_server, f"r{i}")) for i in range(replicas)]
        await until(lambda: any(each.leads for each in all_of_them), "somebody leads")
        [leader] = [each for each in all_of_them if each.leads]
        for i in range(20):
            api_server.create(ours(f"before-{i}"))
        await until(lambda: binds.hits >= 5, "the leader is at work")
        await leader.kill()
        killed_at = asyncio.get_running_loop().time()
        for i in range(20):
            api_server.create(ours(f"after-{i}"))
        others = [each for each in all_of_them if each is not leader]
        await until(lambda: any(each.leads for each in others), "another leads")
        assert asyncio.get_running_loop().time() - killed_at <= LEASE + LOOK + 0.5
        names = [f"{when}-{i}" for when in ("before", "after") for i in range(20)]
        await until(lambda: all(node_of(api_server, name) for name in names), "all pods are bound")
        assert binds.hits <= 40 + 1, "no pod is bound twice; a bind of which the killed one saw no answer may be tried"


async def test_a_new_leader_lists_before_it_binds(api_server: ApiServer) -> None:
    """Its watches went silent long ago, and who led before it has filled n1."""
    api_server.create(node("n1", cpu="1"))
    async with replica(api_server, "one") as one:
        await until(lambda: one.leads and one.service.synced.is_set(), "one leads")
        api_server.create(ours("zeroth"))
        await until(lambda: node_of(api_server, "zeroth") == "n1", "one is at work, its watches are open")
        silent = api_server.faults.add(WatchSilent(), verb="watch", count=None)
        async with replica(api_server, "two") as two:
            await until(two.service.synced.is_set, "two has synced")
            await asyncio.sleep(5.0)
            api_server.faults.remove(silent)
            api_server.create(ours("first", cpu="800m"))
            await until(lambda: node_of(api_server, "first") == "n1", "one binds the first")
            api_server.create(node("n2", cpu="1"))
            api_server.create(ours("second", cpu="800m"))
            await until(lambda: node_of(api_server, "second") == "n2", "one binds the second")
            assert len(two.service.cache.pods) == 1
            await one.kill()
            stale = api_server.faults.add(
                Latency(0.0), path=r"/api/v1/(pods|nodes)\?.*resourceVersion=", verb="list", count=None
            )
            api_server.create(ours("third", cpu="800m"))
            await until(lambda: two.leads and bool(len(two.service.scheduler.decisions)), "two is at work")
            [decision] = two.service.scheduler.decisions
            assert stale.hits == 0, "a list that a cache may answer is not fresh"
            assert (decision.name, decision.result) == ("third", "unschedulable")
            assert decision.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
            check(two.service)


async def test_a_replica_that_delays_its_cache_lists_nothing_before_it_leads(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with (
        replica(api_server, "one", configured(DELAYED)) as one,
        replica(api_server, "two", configured(DELAYED)) as two,
        HttpServer(two.service, "127.0.0.1", 0) as endpoints,
        aiohttp.ClientSession(f"http://127.0.0.1:{endpoints.port}") as http,
    ):
        await until(lambda: one.leads or two.leads, "somebody leads")
        leader, other = (one, two) if one.leads else (two, one)
        api_server.create(ours("first"))
        await until(lambda: node_of(api_server, "first") == "n1", "the leader binds")
        lists = {
            type_: other.service.factory.informer(type_, *more).reflector.lists
            for type_, *more in ((Pod, PODS), (Node,))
        }
        assert lists == {Pod: 0, Node: 0}
        assert not other.service.synced.is_set()
        async with http.get("/readyz") as answer:
            assert answer.status == 200, "a replica that waits is ready to take over"
        leader.service.stop()
        await leader.running
        api_server.create(ours("second"))
        await until(lambda: node_of(api_server, "second") == "n1", "the other takes over")
        assert other.service.synced.is_set()


async def test_work_stops_before_the_lease_can_be_anothers(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    now = asyncio.get_running_loop().time
    async with replica(api_server, "one") as one:
        await until(lambda: one.leads, "one leads")
        api_server.create(ours("first"))
        await until(lambda: node_of(api_server, "first") == "n1", "one binds")
        api_server.faults.add(Answer(503, html=True), path="/leases/podium$", count=None)
        lost_from = now()
        with pytest.raises(BaseExceptionGroup) as ended:
            await one.running
        assert ended.value.subgroup(LeadershipLost) is not None
        assert now() - lost_from <= 10.0 + 2.0
        api_server.create(ours("second"))
        await asyncio.sleep(60.0)
        assert node_of(api_server, "second") == ""
        assert holder(api_server) == "one", "what may be another's by now is not released"


async def test_one_conflict_on_the_lease_does_not_end_a_leadership(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with podium(api_server, leader_elect=True, identity="one") as one:
        await until(lambda: one.elector is not None and one.elector.is_leader, "one leads")
        api_server.faults.add(Answer(409), path="/leases/podium$", verb="update", count=2)
        await asyncio.sleep(30.0)
        api_server.create(ours("web"))
        await until(lambda: node_of(api_server, "web") == "n1", "one still binds")


async def test_binds_that_hang_do_not_cost_the_lease(api_server: ApiServer) -> None:
    """More of them than there are connections: the renewal of the lease does not wait behind them."""
    api_server.create(node("n1", cpu="64", pods="400"))
    async with podium(api_server, leader_elect=True, identity="one") as one:
        await until(lambda: one.elector is not None and one.elector.is_leader, "one leads")
        api_server.faults.add(Hang(), path="/binding$", count=None)
        names = [f"p{i}" for i in range(220)]
        for name in names:
            api_server.create(ours(name))
        await asyncio.sleep(60.0)
        assert one.elector is not None
        assert one.elector.is_leader
        api_server.faults.clear()
        await until(lambda: all(node_of(api_server, name) for name in names), "all are bound")


async def test_two_profiles_with_node_selectors_never_meet_on_a_node(api_server: ApiServer) -> None:
    text = """
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles:
    - {schedulerName: red, nodeSelector: {pool: red}}
    - {schedulerName: blue, nodeSelector: {pool: blue}}
    """
    for name, pool in (("r", "red"), ("b", "blue"), ("neither", "green")):
        made = node(name, cpu="1")
        made["metadata"]["labels"]["pool"] = pool
        api_server.create(made)
    async with podium(api_server, configured(text)) as service:
        for profile in ("red", "blue"):
            for i in range(2):
                made = ours(f"{profile}-{i}", cpu="800m")
                made["spec"]["schedulerName"] = profile
                api_server.create(made)
        await until(lambda: len(service.scheduler.decisions) >= 4, "all were tried")
        await until(lambda: node_of(api_server, "red-0") == "r" and node_of(api_server, "blue-0") == "b", "both bound")
        messages = {d.name: d.message for d in service.scheduler.decisions if d.message}
        assert set(messages) == {"red-1", "blue-1"}
        assert messages["red-1"].startswith(
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match profile's node selector. "
        )
        api_server.patch("nodes", "neither", {"metadata": {"labels": {"pool": "red"}}})
        await until(lambda: node_of(api_server, "red-1") == "neither", "a node that joins the profile wakes its pods")
        assert node_of(api_server, "blue-1") == ""
